"""Machine code of functions inside a Relax module, made before ``relax.build``.

``relax.build`` compiles every ``PrimFunc`` by TVM's default passes, which ignore the annotations of
tvmconv's schedules, and for the caller's target, often plain ``llvm``. Such a kernel loses
prefetches, short last vectors, stack buffers and wide registers. So tvmconv compiles the kernels
itself and attaches the code to the module's attribute ``external_mods``, as TVM's code generators
for other back ends do. :mod:`tvmconv.compile.joined_calls` joins consecutive calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tvmconv.compile.joined_calls import Joined, Key, Line, is_plain
from tvmconv.compile.vm_calls import gpu_library
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.kernels.families import schedules_of
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.tir.general.c_functions import PACKED
from tvmconv.tir.pipeline import compile_function, joined_calls
from tvmconv.tvm_api import ir, relax, tirx
from tvmconv.tvm_api.relax import EXTERNAL_MODULES, PyExprMutator, PyExprVisitor, mutator, visitor
from tvmconv.tvm_api.types import (
    Binding,
    BindingBlock,
    GlobalVar,
    IRModule,
    Module,
    PrimFunc,
    RelaxExpr,
    RelaxVar,
)

# attribute of a module: by symbol of a function in its machine code, the kernels it calls
CALLS = "tvmconv.calls"


def compile_functions(
    mod: IRModule, machine: Device, wanted: Callable[[GlobalVar, PrimFunc], bool]
) -> IRModule:
    """Replace functions of a module by their machine code, called by ``call_dps_packed``.

    The attribute :data:`CALLS` lists the kernels of each such call. ``wanted`` says whether to
    compile the ``PrimFunc`` of a variable. Functions with symbolic arguments, or with calls other
    than ``call_tir``, are never compiled. For a GPU, functions of symbolic shape are not, either.
    Raises :class:`ModelError` or :class:`ArtifactError` as a build for the GPU does.
    """
    with compiler_lock():
        replace = _replaced(mod, machine, wanted)
    if replace is None:
        return mod
    compiled = _BACK_ENDS[machine.kind](replace, machine)
    attributes = dict(mod.attrs) if mod.attrs else {}
    attributes[EXTERNAL_MODULES] = [*attributes.get(EXTERNAL_MODULES, []), compiled]
    attributes[CALLS] = {**attributes.get(CALLS, {}), **replace.calls}
    rewritten = replace.builder_.get()
    kept = {var: func for var, func in rewritten.functions_items() if var not in replace.chosen}
    return ir.IRModule(kept, attrs=attributes)


def schedule_functions(mod: IRModule, machine: Device) -> IRModule:
    """Schedule every function of a module that :func:`compile_functions` may compile."""
    functions = {
        var: schedule_function(func, machine)
        if isinstance(func, tirx.PrimFunc) and _may_compile(func, machine)
        else func
        for var, func in mod.functions_items()
    }
    return ir.IRModule(functions, attrs=mod.attrs)


def _may_compile(func: PrimFunc, machine: Device) -> bool:
    return isinstance(machine, Machine) or _is_static(func)


def _is_static(func: PrimFunc) -> bool:
    return all(isinstance(n, tirx.IntImm) for buffer in func.params for n in buffer.shape)


def _replaced(
    mod: IRModule, machine: Device, wanted: Callable[[GlobalVar, PrimFunc], bool]
) -> _Replacement | None:
    """The rewritten module and the functions to compile; None if there are none."""
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
        and _may_compile(func, machine)
        and wanted(var, func)
    }
    if not chosen:
        return None
    if finished := getattr(schedules_of(machine, "rules"), "finished", None):
        chosen = {var: finished(func) for var, func in chosen.items()}
    libraries = mod.attrs.get(EXTERNAL_MODULES, []) if mod.attrs else []
    # a later pass may reuse the name of a function that an earlier library holds
    replace = _Replacement(mod, chosen, f"tvmconv{len(libraries)}_")
    for var, func in functions.items():
        if isinstance(func, relax.Function):
            replace.builder_.update_func(var, replace.rewritten(func))
    return replace


def _for_cpu(replace: _Replacement, machine: Machine) -> Module:
    with compiler_lock():
        joined = {
            symbol: each.function.with_attr("global_symbol", symbol).with_attr(PACKED, True)
            for symbol, each in replace.joined.items()
        }
        code = ir.IRModule({**replace.code, **joined})
    return compile_function(code, machine, calls=joined_calls).as_import()


def _for_gpu(replace: _Replacement, machine: CudaMachine) -> Module:
    return gpu_library(ir.IRModule(replace.code), replace.joined, machine, replace.prefix)


# compilers of the replaced functions, by kind of device
_BACK_ENDS: dict[str, Callable[[_Replacement, Any], Module]] = {
    Machine.kind: _for_cpu,
    CudaMachine.kind: _for_gpu,
}


@visitor
class _Calls(PyExprVisitor):
    """The functions that plain calls use, and the functions with any other use."""

    def __init__(self) -> None:
        super().__init__()
        self.plain: set[GlobalVar] = set()
        self.other: set[GlobalVar] = set()

    def visit_call_(self, call: Any) -> None:
        if is_plain(call):
            self.plain.add(call.args[0])
            self.visit_expr(call.args[1])
        else:
            super().visit_call_(call)

    def visit_global_var_(self, var: GlobalVar) -> None:
        self.other.add(var)


@mutator
class _Replacement(PyExprMutator):
    """Replaces calls of functions by calls of machine code.

    ``code`` holds the functions to compile, by symbol, and ``joined`` the functions that call them.
    Kernels of symbolic shape, which TVM calls itself, have the attribute :data:`PACKED`.
    """

    def __init__(self, mod: IRModule, chosen: dict[GlobalVar, PrimFunc], prefix: str) -> None:
        super().__init__(mod)
        self.chosen = chosen
        self.prefix = prefix
        self.code: dict[str, PrimFunc] = {}
        self.joined: dict[str, Joined] = {}
        self.kernels: dict[GlobalVar, str] = {}
        self.symbols: dict[GlobalVar, str] = {}
        self.reads: Counter[RelaxVar] = Counter()
        self.lines: dict[Key, str] = {}
        self.calls: dict[str, list[str]] = {}
        for var, func in chosen.items():
            if _is_static(func):
                self.kernels[var] = self._symbol(f"kernel_{var.name_hint}")
                self.code[self.kernels[var]] = func.with_attr("global_symbol", self.kernels[var])
            else:
                name = str(var.name_hint)
                symbol = self.symbols[var] = self._symbol(name)
                named = func.with_attr("global_symbol", symbol)
                self.code[symbol], self.calls[symbol] = named.with_attr(PACKED, True), [name]

    def rewritten(self, function: RelaxExpr) -> Any:
        """A function with its calls replaced."""
        self.reads = _reads(function)
        return self.visit_expr(function)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        return super().visit_binding_block_(
            relax.BindingBlock(self._joined(block.bindings, relax.Var))
        )

    def visit_dataflow_block_(self, block: BindingBlock) -> BindingBlock:
        return super().visit_dataflow_block_(
            relax.DataflowBlock(self._joined(block.bindings, relax.DataflowVar))
        )

    def visit_call_(self, call: Any) -> RelaxExpr:
        if is_plain(call) and call.args[0] in self.symbols:
            arguments = self.visit_expr(call.args[1])
            (result,) = call.ty_args
            types = list(result.fields) if isinstance(result, relax.TupleType) else result
            return relax.call_dps_packed(self.symbols[call.args[0]], arguments, types)
        return super().visit_call_(call)

    def _joined(self, bindings: Sequence[Binding], new: Callable[..., RelaxVar]) -> list[Binding]:
        """The bindings with one call for each sequence of calls."""
        done: list[Binding] = []
        line = Line(self.chosen, self.kernels)
        for binding in bindings:
            if line.take(binding):
                continue
            done += self._call(line, new)
            line = Line(self.chosen, self.kernels)
            if not line.take(binding):
                done.append(binding)
        return [*done, *self._call(line, new)]

    def _call(self, line: Line, new: Callable[..., RelaxVar]) -> list[Binding]:
        """The call that replaces a sequence, and the bindings of its results."""
        inside: Counter[RelaxVar] = Counter()
        for binding in line.bindings:
            inside += _reads(binding.value)
        bound = [binding.var for binding in line.bindings]
        read = [var for var in bound if self.reads[var] > inside[var]]
        if not read:
            return []
        joined = line.join(read)
        if joined.key not in self.lines:
            names = [str(step.function.name_hint) for step in line.steps]
            name = names[0] if len(names) == 1 else f"{names[0]}_to_{names[-1]}"
            symbol = self._symbol(name)
            self.joined[symbol] = joined
            self.lines[joined.key], self.calls[symbol] = symbol, names
        arguments = relax.Tuple(joined.arguments)
        symbol, types = self.lines[joined.key], list(joined.types)
        if len(types) == 1 and joined.results[read[0]] == 0 and len(read) == 1:
            call = relax.call_dps_packed(symbol, arguments, types[0])
            return [relax.VarBinding(read[0], call)]
        whole = new(symbol, relax.TupleType(types))
        bindings = [relax.VarBinding(whole, relax.call_dps_packed(symbol, arguments, types))]
        for var, places in joined.results.items():
            if isinstance(places, int):
                value = relax.TupleGetItem(whole, places)
            else:
                value = relax.Tuple([relax.TupleGetItem(whole, place) for place in places])
            bindings.append(relax.VarBinding(var, value))
        return bindings

    def _symbol(self, name: str) -> str:
        """A new symbol, which is a name in C."""
        first = symbol = self.prefix + re.sub(r"\W", "_", name, flags=re.ASCII)
        count = 1
        while symbol in self.code or symbol in self.joined:
            count += 1
            symbol = f"{first}_{count}"
        return symbol


def _reads(expr: RelaxExpr) -> Counter[RelaxVar]:
    """Number of reads of each variable in an expression."""
    found: Counter[RelaxVar] = Counter()

    def look(part: Any) -> None:
        if isinstance(part, relax.Var):
            found[part] += 1

    relax.analysis.post_order_visit(expr, look)
    return found
