"""Merging element-wise chains into functions, within what TVM and LLVM compile in linear time."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.program.nesting import function_names
from tvmconv.tir.general.axes import loads
from tvmconv.tvm_api import ffi, ir, relax, tirx
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.relax import PyExprMutator, mutator
from tvmconv.tvm_api.types import Binding, GlobalVar, IRModule, Pass, PrimFunc, RelaxExpr, RelaxVar

# LLVM's time grows with the square of a function's operators
_MAX_OPERATORS = 16
# Merged functions are one expression. A polynomial repeats its argument dozens of times, so nested
# polynomials grow by that factor: four of them compile for minutes. Functions with variables do not
# grow, but TVM refuses a variable that is bound in two places.
_MAX_COPIES = 3_000
_MAX_BINDING = 3
_INTRINSICS = ("tirx.erf", "tirx.exp", "tirx.log", "tirx.sigmoid", "tirx.tanh")


def group_operators(mod: IRModule) -> IRModule:
    """Group the functions that may be merged into Relax functions with the attribute Primitive."""
    transform = relax.transform
    before = ir.transform.Sequential([transform.AnnotateTIROpPattern(), _limit_nesting()])
    with ir.transform.PassContext(config={"relax.FuseOps.max_depth": _MAX_OPERATORS}):
        return transform.FuseOps()(before(mod))


def _limit_nesting() -> Pass:
    """Keep a function unmerged if it would nest too many polynomials for the compiler."""

    def run(mod: IRModule, _context: object) -> IRModule:
        visitor = _Limit(mod, _deep_calls(mod))
        for var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                visitor.builder_.update_func(var, visitor.visit_expr(func))
        return visitor.builder_.get()

    return ir.transform.module_pass(run, opt_level=0, name="tvmconv.LimitNesting")


@dataclass(frozen=True)
class _Merged:
    """A possible merged function: copies of its inputs, functions that bind variables.

    ``repeats`` is True if the last function reads an operand in more than one place.
    """

    copies: int = 1
    repeats: bool = False
    binding: frozenset[GlobalVar] = frozenset()


def _deep_calls(mod: IRModule) -> set[RelaxVar]:
    """Variables bound to the calls that are to stay alone."""
    steps: dict[GlobalVar, _Merged] = {}
    chains: dict[RelaxVar, _Merged] = {}
    deep: set[RelaxVar] = set()
    functions = (mod[name] for name in function_names(mod))
    for binding in (b for func in functions for block in func.body.blocks for b in block.bindings):
        callee = _callee(binding.value)
        if callee is None or int(mod[callee].attrs.get("op_pattern", OPAQUE)) == OPAQUE:
            continue
        if callee not in steps:
            steps[callee] = _step(callee, mod[callee])
        step, inputs = steps[callee], binding.value.args[1]
        arguments = inputs.fields if isinstance(inputs, relax.Tuple) else [inputs]
        before = [chains[argument] for argument in arguments if argument in chains]
        bound = frozenset[GlobalVar]().union(*(chain.binding for chain in before))
        copies = step.copies * max((chain.copies for chain in before), default=1)
        # the expression of a value is repeated in every place that reads it
        shared = sum(len(chain.binding) for chain in before) > len(bound)
        binds_twice = shared or (bool(bound) and (step.repeats or callee in bound))
        if binds_twice or copies > _MAX_COPIES or len(bound | step.binding) > _MAX_BINDING:
            deep.add(binding.var)
        else:
            chains[binding.var] = _Merged(copies, step.repeats, bound | step.binding)
    return deep


def _callee(value: RelaxExpr) -> GlobalVar | None:
    """The function that a ``call_tir`` calls."""
    if isinstance(value, ir.Call) and getattr(value.op, "name", "") == "relax.call_tir":
        return value.args[0]
    return None


def _step(callee: GlobalVar, func: PrimFunc) -> _Merged:
    """One function as a part of a merged function."""
    # scheduling makes expressions with variables of the intrinsics
    binding = []
    ffi.structural_walk(
        func.body, (ir.Call, lambda n: binding.append(getattr(n.op, "name", "") in _INTRINSICS))
    )
    ffi.structural_walk(func.body, (tirx.Let, lambda _: binding.append(True)))
    reads = len(loads(func.body))
    # an operator of several operands reads each; x * x and the like stay cheap
    copies = reads if reads > 2 * len(func.params) else 1
    operands = len(func.params) - 1
    return _Merged(copies, reads > operands, frozenset([callee] if any(binding) else []))


@mutator
class _Limit(PyExprMutator):
    def __init__(self, mod: IRModule, deep: set[RelaxVar]) -> None:
        super().__init__(mod)
        self._mod = mod
        self._deep = deep

    def visit_var_binding_(self, binding: Binding) -> None:
        """Call a copy of the function that FuseOps leaves alone."""
        if binding.var in self._deep:
            call = binding.value
            symbol = call.args[0]
            alone = self._mod[symbol].with_attr("op_pattern", OPAQUE)
            target = self.builder_.add_func(alone, f"{symbol.name_hint}_alone")
            call = ir.Call(call.op, [target, *call.args[1:]], call.attrs, call.ty_args)
            binding = relax.VarBinding(binding.var, call)
        super().visit_var_binding_(binding)
