"""Stores the values of ``Let`` expressions in small stack buffers."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import function_pass, local_buffer, map_nodes, nodes_of


def SpillLets() -> Any:
    """A pass that replaces ``Let`` expressions by stores to and loads from small buffers.

    Pattern: a store to flat buffers, after vectorization, whose value contains ``Let``.

    Rewrite: each bound value is stored to a buffer of one vector before the statement, and loaded
    in place of the variable. A ``Let`` below ``if_then_else`` is stored under the same condition,
    which may guard a read of the bound value.

    Why here: TVM's code generator hands every bound value to its arithmetic analyzer, which
    substitutes it at each use. Nested polynomials such as ``tanh(exp(x))`` grow a hundredfold at
    each level and take seconds to minutes. A load is opaque to the analyzer, and LLVM promotes the
    buffers to registers.
    """
    return function_pass("SpillLets", _spill_lets)


def _spill_lets(func: Any) -> Any:
    def rewrite(store: Any) -> Any:
        if not _has_let(store.value):
            return store
        before: list[Any] = []
        value = _spilled(store.value, before)
        return tirx.SeqStmt([*before, tirx.BufferStore(store.buffer, value, store.indices)])

    # unrolled code has thousands of stores, and few functions have a Let
    if not _has_let(func.body):
        return func
    return map_nodes(func, (tirx.BufferStore, rewrite))


def _has_let(expression: Any) -> bool:
    return bool(nodes_of(expression, tirx.Let))


def _spilled(expression: Any, before: list[Any]) -> Any:
    """The expression without ``Let``; the stores that it needs are appended to ``before``."""

    def lower(node: Any) -> Any:
        if isinstance(node, ir.Call):
            guards = is_select(node) and any(_has_let(branch) for branch in node.args[1:])
            return _guarded(node, before) if guards else node
        while isinstance(node, tirx.Let):
            load = _stored(node, before)
            var = node.var

            def put(item: Any, var: Any = var, load: Any = load) -> Any:
                return load if item.same_as(var) else item

            node = tvm_ffi.structural_map(node.body, (ir.Var, put))
        return _spilled(node, before) if _has_let(node) else node

    return tvm_ffi.structural_map(expression, ((tirx.Let, ir.Call), lower), order="pre")


def _stored(let: Any, before: list[Any]) -> Any:
    """The load of a bound value, whose store is appended to ``before``."""
    value = _spilled(let.value, before)
    dtype = let.var.ty.dtype
    lanes = int(dtype.lanes)
    buffer = local_buffer((lanes,), str(dtype).split("x")[0], let.var.name, "global")
    zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
    place = [tirx.Ramp(zero, one, lanes) if lanes > 1 else zero]
    before += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, value, place)]
    return tirx.BufferLoad(buffer, place)


def _guarded(select: Any, before: list[Any]) -> Any:
    """``if_then_else`` whose branches are spilled under its condition."""
    condition = _spilled(select.args[0], before)
    values = []
    for test, branch in zip((condition, tirx.Not(condition)), select.args[1:], strict=True):
        inner: list[Any] = []
        values.append(_spilled(branch, inner))
        # the buffers outlive the branch
        before += [stmt for stmt in inner if isinstance(stmt, tirx.AllocBuffer)]
        stores = [stmt for stmt in inner if not isinstance(stmt, tirx.AllocBuffer)]
        if stores:
            body = tirx.stmt_seq(*stores)
            before.append(tirx.IfThenElse(test, body, None))
    return tirx.if_then_else(condition, *values)
