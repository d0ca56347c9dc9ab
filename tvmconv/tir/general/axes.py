"""How the indices of a block follow its axes; an analysis for schedules."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import nodes_of, substitute, variables

# a step that is not constant
_UNKNOWN = 1 << 30


def loads(statement: Any) -> list[Any]:
    """Every load below a statement."""
    return nodes_of(statement, ir.TensorLoad)


def calls(statement: Any) -> list[Any]:
    """Every call below a statement."""
    return nodes_of(statement, ir.Call)


def collapsible_axes(block: Any) -> int:
    """Index of the first axis from which inner axes can be fused without index arithmetic.

    ``block`` is a ``s_tir.SBlock`` with spatial axes whose body is one ``BufferStore``. The store
    and every load must index their last dimensions by exactly these axes in order, or not use them.
    All axes but the outermost must cover their whole dimension. The axes occur in indices only.
    """
    axes = [axis.var for axis in block.iter_vars]
    extents = [int(axis.dom.extent) for axis in block.iter_vars]
    innermost = max(len(axes) - 1, 0)
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return innermost
    accesses = [(list(store.indices), list(store.buffer.shape))]
    outside: set[Any] = set()

    def enter(node: Any) -> Any:
        if isinstance(node, ir.TensorLoad):
            accesses.append((list(node.indices), list(node.source.shape)))
            return tvm_ffi.structural.WalkResult.SKIP
        outside.add(node)
        return None

    tvm_ffi.structural_walk(store.value, ((ir.TensorLoad, ir.Var), enter), order="pre")
    for first in range(len(axes)):
        inner, size = axes[first:], extents[first:]
        if any(var in outside for var in inner):
            continue
        if all(_follows(indices, shape, inner, size) for indices, shape in accesses):
            return first
    return innermost


def _follows(indices: list[Any], shape: list[Any], inner: list[Any], size: list[int]) -> bool:
    used = [not set(inner).isdisjoint(variables(index)) for index in indices]
    if not any(used):
        return True
    count = len(inner)
    if len(indices) < count or any(used[: len(indices) - count]):
        return False
    tail = indices[len(indices) - count :]
    if not all(index.same_as(var) for index, var in zip(tail, inner, strict=True)):
        return False
    # the outermost fused axis may cover a part of its dimension
    rest = zip(shape[len(shape) - count + 1 :], size[1:], strict=True)
    return all(isinstance(d, tirx.IntImm) and int(d) == n for d, n in rest)


def _step(index: Any, var: Any) -> int:
    """Elements by which an index grows with a variable, or a large number."""
    found = sym.Analyzer().simplify(substitute(index, {var: var + 1}) - index)
    return abs(int(found)) if isinstance(found, tirx.IntImm) else _UNKNOWN


def contiguous_axis(block: Any) -> Any:
    """The axis variable along which most loads of a reduction step by one element, or None."""
    votes: dict[Any, int] = {}
    written = {axis.var for axis in block.iter_vars}
    for load in nodes_of(block.body, ir.TensorLoad):
        if load.source.same_as(block.writes[0].source) or not load.indices:
            continue
        last = load.indices[len(load.indices) - 1]
        steps = {var: _step(last, var) for var in written.intersection(variables(last))}
        for var, step in steps.items():
            if step == min(steps.values()):
                votes[var] = votes.get(var, 0) + 1
    return max(votes, key=lambda var: votes[var]) if votes else None
