"""Merges moves of whole rows to one gather, such as the shifted windows of Swin.

Exporters write a shift as slices and a concatenation along each axis, and windows as a
transposition. All of them move rows of channels. One :data:`PICK` of constant rows replaces a chain
of such nodes that begins at one tensor, and each row is copied once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.graph.blockable import slice_ranges, split_ranges
from tvmconv.graph.ir import ARITHMETIC, Array, Graph, Node, Value, fused_node, make_node
from tvmconv.graph.rewrite.attention import ATTENTION
from tvmconv.graph.rewrite.row_gathers import PICK
from tvmconv.graph.rewrite.statistics import STANDARDIZE

# shorter rows are less than a vector
_SHORTEST_ROW = 16
_MOVES = ("concat", "permute_dims", "split", "strided_slice")


@dataclass(frozen=True)
class _Rows:
    """The rows of ``base`` that are a tensor's, for all axes but the last, after some moves."""

    base: Value
    numbers: Array
    moves: int = 0


def merge_row_moves(graph: Graph) -> None:
    """Replace the last node of each chain of several moves, in place."""
    users = graph.users()
    found: dict[int, _Rows] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        made = [node]
        for value in node.outputs:
            rows = _moved(node, value, found)
            if rows is None:
                continue
            found[id(value)] = rows
            # reshapes are views, they belong to the chain but do not end it
            last = node.op in _MOVES and not _only_moves(value, users)
            if last and rows.moves > 1 and len(node.outputs) == 1 and _is_rows(rows.base):
                made = _gather(node, rows)
        nodes += made
    graph.nodes = nodes
    graph.remove_dead()


def _is_rows(value: Value) -> bool:
    """Whether a kernel writes a value as rows; images of convolutions are blocks of channels."""
    made = value.producer
    while made is not None and made.op in ARITHMETIC and any(v.is_const for v in made.inputs):
        made = next((v for v in made.inputs if not v.is_const), value).producer
    return made is not None and made.op in (STANDARDIZE, ATTENTION, "dense")


def _only_moves(value: Value, users: dict[Value, list[Node]]) -> bool:
    """Whether only moves and reshapes that keep the rows read a value, at least one of them."""
    readers = users.get(value, [])
    return bool(readers) and all(
        _only_moves(reader.output, users)
        if reader.op == "reshape" and _keeps_rows(reader)
        else reader.op in _MOVES and all(v.dims[-1:] == value.dims[-1:] for v in reader.outputs)
        for reader in readers
    )


def _keeps_rows(node: Node) -> bool:
    return node.output.shape is not None and node.args[0].dims[-1:] == node.output.dims[-1:]


def _moved(node: Node, value: Value, found: dict[int, _Rows]) -> _Rows | None:
    """The rows of a result; None if the node is not a move of rows."""
    known = all(v.shape is not None and 0 not in v.dims for v in (*node.inputs, value))
    if node.op not in (*_MOVES, "reshape") or not known or not value.dims:
        return None
    width = value.dims[-1]
    if width < _SHORTEST_ROW or value.dtype != "float32":
        return None
    if any(v.is_const or v.dims[-1:] != (width,) for v in node.inputs):
        return None
    sources = [found.get(id(v)) or _own(v) for v in node.inputs]
    first, rank = sources[0], len(value.dims)
    numbers: Array | None = None
    if node.op == "reshape":
        return _Rows(first.base, first.numbers.reshape(value.dims[:-1]), first.moves)
    if node.op == "permute_dims":
        given = node.attrs.get("axes")
        order = range(rank)[::-1] if given is None else [int(axis) % rank for axis in given]
        numbers = first.numbers.transpose(order[:-1]) if order[-1] == rank - 1 else None
    elif node.op == "concat":
        axis = int(node.attrs.get("axis") or 0) % rank
        if axis < rank - 1 and all(source.base is first.base for source in sources):
            numbers = np.concatenate([source.numbers for source in sources], axis)
    else:
        ranges = slice_ranges(node) if node.op == "strided_slice" else split_ranges(node, value)
        if ranges is not None and ranges[-1] == (0, width, 1):
            places = [begin + step * np.arange(count) for begin, count, step in ranges[:-1]]
            numbers = first.numbers[np.ix_(*places)]
    if numbers is None:
        return None
    return _Rows(first.base, numbers, 1 + max(source.moves for source in sources))


def _own(value: Value) -> _Rows:
    shape = value.dims[:-1]
    return _Rows(value, np.arange(prod(shape)).reshape(shape))


def _gather(node: Node, rows: _Rows) -> list[Node]:
    width = node.output.dims[-1]
    source = make_node("reshape", [rows.base], (1, 1, prod(rows.base.dims[:-1]), width))
    numbers = tuple(int(number) for number in rows.numbers.reshape(-1))
    picked = make_node(
        PICK, [source.output], (1, 1, len(numbers), width), layer=node.layer,
        attrs={"rows": numbers, "columns": None},
    )  # fmt: skip
    return [source, picked, fused_node("reshape", [picked.output], node, node.layer, {})]
