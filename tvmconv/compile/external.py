"""Machine code of functions inside a Relax module, made before ``relax.build``.

``relax.build`` compiles every ``PrimFunc`` by TVM's default passes, which ignore the annotations of
tvmconv's schedules, and for the caller's target, often plain ``llvm``. Such a kernel loses
prefetches, short last vectors, stack buffers and wide registers. So tvmconv compiles the kernels
itself and attaches the code to the module's attribute ``external_mods``, as TVM's code generators
for other back ends do. :mod:`tvmconv.compile.joined` joins consecutive calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tvmconv.compile.joined import Line, is_plain
from tvmconv.kernels.compiler_lock import compiler_lock
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
    PrimFunc,
    RelaxExpr,
    RelaxVar,
)

# attribute of a module: by symbol of a function in its machine code, the kernels it calls
CALLS = "tvmconv.calls"


def compile_functions(
    mod: IRModule, machine: Machine, wanted: Callable[[GlobalVar, PrimFunc], bool]
) -> IRModule:
    """Replace functions of a module by their machine code, called by ``call_dps_packed``.

    The attribute :data:`CALLS` lists the kernels of each such call. ``wanted`` says whether to
    compile the ``PrimFunc`` of a variable. Functions with symbolic arguments, or with calls other
    than ``call_tir``, are never compiled.
    """
    with compiler_lock():
        replace = _replaced(mod, wanted)
    if replace is None:
        return mod
    compiled = compile_function(ir.IRModule(replace.code), machine, calls=joined_calls).as_import()
    attributes = dict(mod.attrs) if mod.attrs else {}
    attributes[EXTERNAL_MODULES] = [*attributes.get(EXTERNAL_MODULES, []), compiled]
    attributes[CALLS] = {**attributes.get(CALLS, {}), **replace.calls}
    rewritten = replace.builder_.get()
    kept = {var: func for var, func in rewritten.functions_items() if var not in replace.chosen}
    return ir.IRModule(kept, attrs=attributes)


def _replaced(mod: IRModule, wanted: Callable[[GlobalVar, PrimFunc], bool]) -> _Replacement | None:
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
        and wanted(var, func)
    }
    if not chosen:
        return None
    libraries = mod.attrs.get(EXTERNAL_MODULES, []) if mod.attrs else []
    # a later pass may reuse the name of a function that an earlier library holds
    replace = _Replacement(mod, chosen, f"tvmconv{len(libraries)}_")
    for var, func in functions.items():
        if isinstance(func, relax.Function):
            replace.builder_.update_func(var, replace.rewritten(func))
    return replace


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

    ``code`` holds the functions to compile, by symbol. Kernels of static shape lack the attribute
    :data:`PACKED`; the functions that call them, and kernels of symbolic shape, have it.
    """

    def __init__(self, mod: IRModule, chosen: dict[GlobalVar, PrimFunc], prefix: str) -> None:
        super().__init__(mod)
        self.mod = mod
        self.chosen = chosen
        self.prefix = prefix
        self.code: dict[str, PrimFunc] = {}
        self.kernels: dict[GlobalVar, str] = {}
        self.symbols: dict[GlobalVar, str] = {}
        self.reads: Counter[RelaxVar] = Counter()
        self.lines: dict[str, str] = {}
        self.calls: dict[str, list[str]] = {}
        for var, func in chosen.items():
            if _is_static(func):
                self.kernels[var] = f"{prefix}kernel_{var.name_hint}"
                self.code[self.kernels[var]] = func.with_attr("global_symbol", self.kernels[var])
            else:
                name = str(var.name_hint)
                self.symbols[var] = self._add(name, func)
                self.calls[self.symbols[var]] = [name]

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
        line = Line(self.mod, self.kernels)
        for binding in bindings:
            if line.take(binding):
                continue
            done += self._call(line, new)
            line = Line(self.mod, self.kernels)
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
            symbol = self._add(name, joined.function)
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

    def _add(self, name: str, func: PrimFunc) -> str:
        """Add a function that TVM calls; returns its symbol."""
        symbol, count = self.prefix + name, 1
        while symbol in self.code:
            count += 1
            symbol = f"{self.prefix}{name}_{count}"
        self.code[symbol] = func.with_attr("global_symbol", symbol).with_attr(PACKED, True)
        return symbol


def _is_static(func: PrimFunc) -> bool:
    return all(isinstance(n, tirx.IntImm) for buffer in func.params for n in buffer.shape)


def _reads(expr: RelaxExpr) -> Counter[RelaxVar]:
    """Number of reads of each variable in an expression."""
    found: Counter[RelaxVar] = Counter()

    def look(part: Any) -> None:
        if isinstance(part, relax.Var):
            found[part] += 1

    relax.analysis.post_order_visit(expr, look)
    return found
