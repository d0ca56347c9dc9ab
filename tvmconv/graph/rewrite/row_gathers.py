"""Recognizes gathers of whole rows and columns of images, such as padding by repeated elements.

One :data:`PICK` replaces the gathers along both axes and keeps the layout. Its attributes are the
indices of rows and columns, None for all.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.graph.ir import Graph, Node, Value, fused_node, make_node
from tvmconv.operators.picked_rows import runs_of

PICK = "tvmconv.pick"
_NAMES = {2: "rows", 3: "columns"}


def fuse_picks(graph: Graph) -> None:
    """Replace gathers along height or width by constant indices."""
    counts = graph.use_counts()
    for node in graph.nodes:
        if node.op != "take" or not node.output.is_map or not node.args[0].is_map:
            continue
        source, axis = node.args[0], node.attrs.get("axis")
        name = _NAMES.get(axis % 4) if isinstance(axis, int) else None
        numbers = _numbers(node)
        if name is None or numbers is None:
            continue
        attrs: dict[str, tuple[int, ...] | None] = {"rows": None, "columns": None}
        before = source.producer if counts[source] == 1 else None
        if before is not None and before.op == PICK and before.attrs[name] is None:
            source, attrs = before.args[0], dict(before.attrs)
        node.op, node.args, node.call = PICK, [source], None
        node.attrs = {**attrs, name: numbers}


def pick_along_rows(graph: Graph) -> None:
    """Replace gathers along the last axis of other tensors, such as signals, by constant indices.

    They are copies of neighbors if the indices have few runs, also of a gather of rows before
    them. Networks of signals and of volumes must be images by now.
    """
    counts = graph.use_counts()

    def visit(node: Node, _: dict[Value, Value]) -> list[Node]:
        columns = _numbers(node, -1)
        if columns is None or node.output.is_map or runs_of(columns) is None:
            return [node]
        source, before = node.args[0], node.args[0].producer
        rows = _numbers(before, -2) if before is not None and counts[source] == 1 else None
        if before is not None and rows is not None:
            source = before.args[0]
        shape, dtype = source.dims[-2:] if rows else (1, source.dims[-1]), node.output.dtype
        planes = (1, prod(source.dims) // prod(shape))
        view = make_node("reshape", [source], (*planes, *shape), dtype=dtype)
        picked = make_node(
            PICK, [view.output], (*planes, len(rows) if rows else 1, len(columns)), dtype=dtype,
            layer=node.layer, attrs={"rows": rows, "columns": columns},
        )  # fmt: skip
        return [view, picked, fused_node("reshape", [picked.output], node, node.layer, {})]

    graph.forward(visit)
    graph.remove_dead()


def _numbers(node: Node, axis: int | None = None) -> tuple[int, ...] | None:
    """The constant indices of a gather along an axis, of any if None; None for other nodes."""
    if node.op != "take" or node.output.shape is None:
        return None
    source, indices, given = node.args[0], node.const(1), node.attrs.get("axis")
    if source.is_const or not isinstance(given, int) or indices is None or indices.ndim != 1:
        return None
    rank = len(source.dims)
    if axis is not None and (given - axis) % rank:
        return None
    size = source.dims[given % rank]
    if indices.size == 0 or indices.min() < 0 or indices.max() >= size:
        return None
    return tuple(int(i) for i in np.asarray(indices))
