"""Blocks whose conditions have one outcome each, by cutting the ranges of their axes."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import (
    block_nest,
    nest_of,
    nodes_of,
    rebuilt_block,
    substitute,
    uses,
)

# blocks beyond which code size costs more than conditions
_MOST_PIECES = 32


def cut_axes(func: Any, shortest: int = 1) -> Any:
    """Cut the axes of spatial blocks where a condition on one axis changes its outcome.

    Concatenations select an operand, and padding selects its value, by an axis. As separate blocks,
    the pieces are plain copies of contiguous runs. With the condition inside, vectors of several
    outcomes are scalar code. The innermost axes are not cut if their elements are fewer than
    ``shortest`` in all. A function is unchanged if it has no such condition, too many pieces, or
    extents that are known only at run time.
    """
    parts = tirx.stmt_list(func.body.block.body)
    pieces = [piece for part in parts for piece in _pieces(part, shortest)]
    if not len(parts) < len(pieces) <= _MOST_PIECES:
        return func
    return func.with_body(rebuilt_block(func.body, body=tirx.SeqStmt(pieces)))


def _pieces(statement: Any, shortest: int) -> list[Any]:
    """The nest in pieces, in order of its first axis; the nest itself where nothing is cut."""
    found = _first_cut(statement, shortest)
    if found is None:
        return [statement]
    number, cut = found
    nests = _cut_nests(statement, number, cut)
    return [piece for nest in nests for piece in _pieces(nest, shortest)]


def _first_cut(statement: Any, shortest: int) -> tuple[int, int] | None:
    """The outermost axis on which a condition depends, and where its outcome changes."""
    loops, realize = nest_of(statement)
    if not isinstance(realize, s_tir.SBlockRealize):
        return None
    axes = realize.block.iter_vars
    plain = len(axes) == len(loops) and all(
        value.same_as(loop.loop_var)
        and int(axis.iter_type) == 0
        and isinstance(axis.dom.extent, tirx.IntImm)
        for value, loop, axis in zip(realize.iter_values, loops, axes, strict=True)
    )
    if not plain or not isinstance(realize.block.body, tirx.BufferStore):
        return None
    if _reads_neighbors(realize.block.body.value):
        return None
    extents = [int(axis.dom.extent) for axis in axes]
    long = [number for number in range(len(axes)) if prod(extents[number:]) >= shortest]
    comparisons: list[Any] = []

    def choice(node: Any) -> None:
        selects = isinstance(node, tirx.Select)
        if selects or is_select(node):
            condition = node.condition if selects else node.args[0]
            kinds = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)
            tvm_ffi.structural_walk(condition, (kinds, comparisons.append))

    tvm_ffi.structural_walk(realize.block.body.value, ((ir.Call, tirx.Select), choice))
    cuts = [
        (number, cut)
        for comparison in comparisons
        for number in long
        if (cut := _cut(comparison, axes[number])) is not None
    ]
    return min(cuts, default=None)


def _reads_neighbors(value: Any) -> bool:
    """Whether a buffer is read in several places: windows would be pieces of much code.

    Where functions are concatenated, each of them counts by itself. Scalar code of plain copies
    costs less than their pieces.
    """
    if nodes_of(value, tirx.Let):
        if isinstance(value, tirx.Cast):
            return _reads_neighbors(value.value)
        if isinstance(value, ir.Call) and is_select(value):
            return any(map(_reads_neighbors, value.args[1:]))
    seen: dict[Any, Any] = {}
    for load in nodes_of(value, ir.TensorLoad):
        if not tvm_ffi.structural_equal(seen.setdefault(load.source, load), load):
            return True
    return False


def _cut(comparison: Any, axis: Any) -> int | None:
    """The first value of an axis with another outcome than zero has; None for others."""
    var, extent = axis.var, int(axis.dom.extent)
    if not uses(comparison, var):
        return None
    analyzer = sym.Analyzer()
    distance = comparison.a - comparison.b
    starts = [substitute(distance, {var: value}) for value in (0, 1, extent - 1)]
    step, whole = (analyzer.simplify(end - starts[0]) for end in starts[1:])
    constant = isinstance(step, tirx.IntImm) and isinstance(whole, tirx.IntImm)
    if not constant or int(whole) != int(step) * (extent - 1):
        return None

    def outcome(value: int) -> bool | None:
        found = analyzer.simplify(substitute(comparison, {var: value}))
        return bool(int(found)) if isinstance(found, tirx.IntImm) else None

    first, last = outcome(0), outcome(extent - 1)
    if first is None or last is None or first == last:
        return None
    low, high = 0, extent - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if outcome(middle) == first else (low, middle)
    return high


def _cut_nests(statement: Any, number: int, cut: int) -> list[Any]:
    """A nest over the values of an axis before a cut, and over the values from the cut on."""
    return [_part(statement, number, first, last) for first, last in ((0, cut), (cut, None))]


def _part(statement: Any, number: int, first: int, last: int | None) -> Any:
    loops, realize = nest_of(statement)
    block = realize.block
    old = block.iter_vars[number]
    kind = str(old.var.ty.dtype)
    zero, extent = (
        tirx.IntImm(kind, value) for value in (0, (last or int(old.dom.extent)) - first)
    )
    fresh = {axis.var: ir.Var(axis.var.name, axis.var.ty) for axis in block.iter_vars}
    axes, analyzer = [], sym.Analyzer()
    for position, axis in enumerate(block.iter_vars):
        domain = ir.Range(zero, extent) if position == number else axis.dom
        axes.append(tirx.IterVar(domain, fresh[axis.var], 0))
        analyzer.bind(fresh[axis.var], domain)
    moved = {**fresh, old.var: fresh[old.var] + first}
    store = substitute(block.body, moved)
    value = analyzer.simplify(store.value)
    indices = [analyzer.simplify(index) for index in store.indices]
    body = tirx.BufferStore(store.buffer, value, indices)
    return block_nest(block, axes, [loop.loop_var.name for loop in loops], body)
