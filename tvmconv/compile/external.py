"""Machine code of functions inside a Relax module, made before ``relax.build`` sees them.

``relax.build`` compiles every ``PrimFunc`` by TVM's default passes, which know nothing of the
annotations of tvmconv's schedules, and for the target that the caller names, often plain
``llvm``: a kernel that reaches it loses prefetches, short last vectors, stack buffers and wide
registers. Compiled by tvmconv's pipeline and attached to the module as TVM's code generators for
other back ends attach theirs (the attribute ``external_mods``), a kernel is the same code as in
``tvmconv.build``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.machines.record import Machine
from tvmconv.tir.pipeline import compile_function
from tvmconv.tvm_api import ir, relax, tirx
from tvmconv.tvm_api.relax import EXTERNAL_MODULES, PyExprMutator, PyExprVisitor, mutator, visitor
from tvmconv.tvm_api.types import GlobalVar, IRModule, PrimFunc, RelaxExpr


def compile_functions(
    mod: IRModule, machine: Machine, wanted: Callable[[GlobalVar, PrimFunc], bool]
) -> IRModule:
    """Replace functions of a module by their machine code.

    Parameters
    ----------
    mod
        ``tvm.IRModule`` of Relax functions and scheduled ``PrimFunc`` s.
    machine
        The target.
    wanted
        Says of a variable and its ``PrimFunc`` whether to compile it. Functions of symbolic
        shape, and those that are called otherwise than by ``call_tir``, are kept in any case.

    Returns
    -------
    tvm.IRModule
        The module without these functions, their calls as ``call_dps_packed``.
    """
    functions = dict(mod.functions_items())
    search = _Calls()
    for func in functions.values():
        if isinstance(func, relax.Function):
            search.visit_expr(func)
    chosen = {
        var: func
        for var, func in functions.items()
        if isinstance(func, tirx.PrimFunc)
        and var in search.plain
        and var not in search.other
        and wanted(var, func)
    }
    if not chosen:
        return mod
    attributes = dict(mod.attrs) if mod.attrs else {}
    libraries = list(attributes.get(EXTERNAL_MODULES, []))
    # a later pass may give a function the name of one that is gone from the module, but lives on
    # in an earlier library
    symbols = {var: f"tvmconv{len(libraries)}_{var.name_hint}" for var in chosen}
    named = {var: func.with_attr("global_symbol", symbols[var]) for var, func in chosen.items()}
    compiled = compile_function(ir.IRModule(named), machine).as_import()
    attributes[EXTERNAL_MODULES] = [*libraries, compiled]
    replace = _Replacement(mod, symbols)
    for var, func in functions.items():
        if isinstance(func, relax.Function):
            replace.builder_.update_func(var, replace.visit_expr(func))
    rewritten = replace.builder_.get()
    kept = {var: func for var, func in rewritten.functions_items() if var not in chosen}
    return ir.IRModule(kept, attrs=attributes)


def _is_plain(call: Any) -> bool:
    """A ``call_tir`` without symbolic shapes."""
    return getattr(call.op, "name", "") == "relax.call_tir" and len(call.args) == 2


@visitor
class _Calls(PyExprVisitor):
    """Which functions are called plainly, and which are used in any other way."""

    def __init__(self) -> None:
        super().__init__()
        self.plain: set[GlobalVar] = set()
        self.other: set[GlobalVar] = set()

    def visit_call_(self, call: Any) -> None:
        if _is_plain(call):
            self.plain.add(call.args[0])
            self.visit_expr(call.args[1])
        else:
            super().visit_call_(call)

    def visit_global_var_(self, var: GlobalVar) -> None:
        self.other.add(var)


@mutator
class _Replacement(PyExprMutator):
    def __init__(self, mod: IRModule, symbols: dict[GlobalVar, str]) -> None:
        super().__init__(mod)
        self.symbols = symbols

    def visit_call_(self, call: Any) -> RelaxExpr:
        if _is_plain(call) and call.args[0] in self.symbols:
            arguments = self.visit_expr(call.args[1])
            (result,) = call.ty_args
            types = list(result.fields) if isinstance(result, relax.TupleType) else result
            return relax.call_dps_packed(self.symbols[call.args[0]], arguments, types)
        return super().visit_call_(call)
