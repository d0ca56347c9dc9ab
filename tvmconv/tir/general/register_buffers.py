"""Accesses of a specialized statement: predicates are decided, buffers are split.

A part of :func:`tvmconv.tir.general.specialize.Specialize`.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.ir.expr import TensorLoad

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import byte_size, factors_of, local_buffer, nodes_of
from tvmconv.tir.general.scope import Scope, fresh, is_select, is_unrolled, variables
from tvmconv.tir.general.stack_buffers import POOLED_BYTES


def drop_decided(stmt: Any, scope: Scope) -> Any:
    """A store with its variables replaced, and without the predicates that the scope decides.

    None if the store adds a product with a factor outside the image.
    """
    skipped = False

    def select(call: Any) -> Any:
        nonlocal skipped
        if not is_select(call):
            return call
        condition, value, other = call.args
        undecided = scope.undecided(condition)
        if undecided is None:
            skipped = True
            return other
        return tirx.if_then_else(tirx.all(*undecided), value, other) if undecided else value

    if scope.memo.selects(stmt):
        stmt = tvm_ffi.structural_map(stmt, (ir.Call, select), order="post")
    if skipped and _is_accumulation(stmt):
        return None

    def load(node: Any) -> Any:
        return tirx.BufferLoad(*_locate(node.source, node.indices, scope))

    def store(node: Any) -> Any:
        buffer, indices = _locate(node.buffer, node.indices, scope)
        return tirx.BufferStore(buffer, node.value, indices)

    rules = [(ir.Var, scope.value), (TensorLoad, load), (tirx.BufferStore, store)]
    return tvm_ffi.structural_map(stmt, rules, order="post")


def cut_buffer(buffer: Any, region: Any) -> tuple[list[Any], int, list[Any]]:
    """Buffers that replace an allocation, split along one dimension to stay below the stack limit.

    Also the dimension that selects among them, and the variables of the unrolled loops that index
    it. One buffer and no loops if the allocation is small enough, or if other loops index it.
    """

    shape = [int(extent) for extent in buffer.shape]
    total = byte_size(buffer)
    whole: tuple[list[Any], int, list[Any]] = ([fresh(buffer)], 0, [])
    if total < POOLED_BYTES:
        return whole
    for extent, dimension in sorted((e, d) for d, e in enumerate(shape[:-1])):
        loops = _unrolled_index(buffer, dimension, region)
        if loops is None or total // extent >= POOLED_BYTES:
            continue
        rest = [*shape[:dimension], 1, *shape[dimension + 1 :]]
        names = [f"{buffer.name}_{i}" for i in range(extent)]
        scope = buffer.scope()
        pieces = [local_buffer(rest, buffer.dtype, name, scope) for name in names]
        return pieces, dimension, loops
    return whole


def _unrolled_index(buffer: Any, dimension: int, region: Any) -> list[Any] | None:
    """The unrolled loops that index a dimension of a buffer; None if other variables do."""
    unrolled = [loop.loop_var for loop in nodes_of(region, tirx.For) if is_unrolled(loop)]
    used: list[Any] = []
    for node in nodes_of(region, (tirx.BufferStore, ir.expr.TensorLoad)):
        target = node.buffer if isinstance(node, tirx.BufferStore) else node.source
        if target.same_as(buffer):
            used += variables(node.indices[dimension])
    known = all(any(v.same_as(u) for u in unrolled) for v in used)
    return used if known else None


def _locate(buffer: Any, indices: Any, scope: Scope) -> tuple[Any, list[Any]]:
    """Buffer and rewritten indices of an access, with the pieces of a split allocation."""
    if buffer not in scope.pieces:
        return buffer, list(indices)
    pieces, dimension = scope.pieces[buffer]
    indices = list(indices)
    if len(pieces) == 1:
        return pieces[0], indices
    number = int(scope.analyzer.simplify(indices[dimension]))
    return pieces[number], [*indices[:dimension], 0, *indices[dimension + 1 :]]


def _is_accumulation(stmt: Any) -> bool:
    """``x = x + 0 * y``, or the same with a dot product."""
    if not isinstance(stmt, tirx.BufferStore) or not isinstance(stmt.value, tirx.Add):
        return False
    total, product = stmt.value.a, stmt.value.b
    if not isinstance(total, TensorLoad) or not total.source.same_as(stmt.buffer):
        return False
    return any(is_zero(factor) for factor in factors_of(product))
