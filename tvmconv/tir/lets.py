"""Values that ``Let`` expressions bind, kept in small stack buffers."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.conditions import is_select
from tvmconv.tir.rewrite import function_pass, local_buffer


def SpillLets() -> Any:
    """A pass that turns ``Let`` expressions into stores to and loads from small buffers.

    Pattern: a store, to flat buffers and after vectorisation, whose value contains ``Let``, but
    none below ``if_then_else``, whose condition may guard a read of the bound value.

    Rewrite: each bound value is stored to a buffer of one vector before the statement, and loaded
    where the variable stood.

    Why here: TVM's code generator hands every bound value to its arithmetic analyzer, which
    substitutes it wherever it is used: nested polynomials such as ``tanh(exp(x))`` grow a
    hundredfold at each level and take seconds to minutes. A load is opaque to the analyzer, and
    LLVM promotes the buffers to registers.
    """
    return function_pass("SpillLets", _spill_lets)


def _spill_lets(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    changed = False

    def rewrite(store: Any) -> Any:
        nonlocal changed
        if not _has_let(store.value) or _guards_let(store.value):
            return store
        changed = True
        before: list[Any] = []
        value = _spilled(store.value, before)
        return tirx.SeqStmt([*before, tirx.BufferStore(store.buffer, value, store.indices)])

    body = tvm_ffi.structural_map(func.body, (tirx.BufferStore, rewrite))
    return func.with_body(body) if changed else func


def _has_let(expression: Any) -> bool:
    import tvm_ffi
    from tvm import tirx

    found = False

    def look(_node: Any) -> None:
        nonlocal found
        found = True

    tvm_ffi.structural_walk(expression, (tirx.Let, look))
    return found


def _guards_let(expression: Any) -> bool:
    import tvm_ffi
    from tvm import ir

    found = False

    def look(call: Any) -> None:
        nonlocal found
        if is_select(call):
            found = found or any(_has_let(argument) for argument in call.args[1:])

    tvm_ffi.structural_walk(expression, (ir.Call, look))
    return found


def _spilled(expression: Any, before: list[Any]) -> Any:
    """The expression without ``Let``; the stores that it needs first go to ``before``."""
    import tvm_ffi
    from tvm import ir, tirx

    def lower(let: Any) -> Any:
        node = let
        while isinstance(node, tirx.Let):
            value = _spilled(node.value, before)
            dtype = node.var.ty.dtype
            lanes = int(dtype.lanes)
            buffer = local_buffer((lanes,), str(dtype).split("x")[0], node.var.name, "global")
            zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
            place = [tirx.Ramp(zero, one, lanes) if lanes > 1 else zero]
            before.append(tirx.AllocBuffer(buffer))
            before.append(tirx.BufferStore(buffer, value, place))
            load = tirx.BufferLoad(buffer, place)
            var = node.var

            def put(item: Any, var: Any = var, load: Any = load) -> Any:
                return load if item.same_as(var) else item

            node = tvm_ffi.structural_map(node.body, (ir.Var, put))
        return node

    return tvm_ffi.structural_map(expression, (tirx.Let, lower), order="pre")
