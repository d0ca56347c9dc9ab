"""Merging element-wise chains into functions, within what TVM and LLVM compile in linear time."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmconv.graph.emitter import OPAQUE

# LLVM's time grows with the square of a function's operators
_MAX_OPERATORS = 16
# A polynomial reads its argument several times, so that an expression of nested ones grows by a
# factor at each level: three take a second to compile, five minutes.
_MAX_NESTED = 2
_POLYNOMIALS = ("tirx.erf", "tirx.exp", "tirx.log", "tirx.sigmoid", "tirx.tanh")


def group_operators(mod: Any) -> Any:
    """Group what may be merged of a module of functions.

    Returns
    -------
    tvm.IRModule
        Each group is a Relax function with the attribute ``Primitive``.
    """
    transform = relax.transform
    before = tvm.transform.Sequential([transform.AnnotateTIROpPattern(), _limit_nesting()])
    with tvm.transform.PassContext(config={"relax.FuseOps.max_depth": _MAX_OPERATORS}):
        return transform.FuseOps()(before(mod))


def _limit_nesting() -> Any:
    """Keep a function apart where it would nest more polynomials than a compiler bears."""

    def run(mod: Any, _context: Any) -> Any:
        visitor = _Limit(mod, _deep_calls(mod))
        for var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                visitor.builder_.update_func(var, visitor.visit_expr(func))
        return visitor.builder_.get()

    return tvm.transform.module_pass(run, opt_level=0, name="tvmconv.LimitNesting")


def _deep_calls(mod: Any) -> set[Any]:
    """Variables bound to the calls that are to stay alone."""
    own: dict[Any, int] = {}
    depth: dict[Any, int] = {}
    deep: set[Any] = set()
    for _, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        for binding in (b for block in func.body.blocks for b in block.bindings):
            callee = _callee(binding.value)
            if callee is None or int(mod[callee].attrs.get("op_pattern", OPAQUE)) == OPAQUE:
                continue
            if callee not in own:
                own[callee] = _count_polynomials(mod[callee])
            arguments = binding.value.args[1].fields
            before = max((depth.get(argument, 0) for argument in arguments), default=0)
            if before and before + own[callee] > _MAX_NESTED:
                deep.add(binding.var)
            else:
                depth[binding.var] = before + own[callee]
    return deep


def _callee(value: Any) -> Any:
    """The function that a ``call_tir`` calls."""
    if isinstance(value, ir.Call) and getattr(value.op, "name", "") == "relax.call_tir":
        return value.args[0]
    return None


def _count_polynomials(func: Any) -> int:
    found = 0

    def call(node: Any) -> None:
        nonlocal found
        found += getattr(node.op, "name", "") in _POLYNOMIALS

    def let(_node: Any) -> None:
        nonlocal found
        found += 1

    tvm_ffi.structural_walk(func.body, (ir.Call, call), (tirx.Let, let))
    return min(found, _MAX_NESTED)


@mutator
class _Limit(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, deep: set[Any]) -> None:
        super().__init__(mod)
        self._mod = mod
        self._deep = deep

    def visit_var_binding_(self, binding: Any) -> None:
        """Call a copy of the function that FuseOps leaves alone."""
        if binding.var in self._deep:
            call = binding.value
            symbol = call.args[0]
            alone = self._mod[symbol].with_attr("op_pattern", OPAQUE)
            target = self.builder_.add_func(alone, f"{symbol.name_hint}_alone")
            call = ir.Call(call.op, [target, *call.args[1:]], call.attrs, call.ty_args)
            binding = relax.VarBinding(binding.var, call)
        super().visit_var_binding_(binding)
