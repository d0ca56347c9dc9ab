"""Replaces the convolutions of any Relax module, block by block."""

from __future__ import annotations

import warnings

from tvmconv.compile.external import compile_functions
from tvmconv.core.printed import printable
from tvmconv.graph.emit.emitter import Emitter
from tvmconv.graph.emit.graph import emit_graph
from tvmconv.graph.functions import read_functions, without_unused
from tvmconv.graph.ir import Arg, Graph, Node, Value
from tvmconv.graph.layout import plan_layouts
from tvmconv.graph.match import CONV
from tvmconv.graph.prelude import prepare
from tvmconv.graph.read import Bound, is_readable, read_bindings, value_of
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.kernels.kernel import Kernel
from tvmconv.kernels.rules import SCHEDULED, schedule_function
from tvmconv.machines.device import Device
from tvmconv.selection.overrides import check_used
from tvmconv.selection.policy import Policy
from tvmconv.tvm_api import ir, relax, tirx
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.relax import PyExprMutator, mutator
from tvmconv.tvm_api.types import BindingBlock, GlobalVar, IRModule, RelaxExpr, RelaxVar


def substitute(mod: IRModule, machine: Device, policy: Policy | None) -> IRModule:
    """Rewrite every dataflow block that holds a convolution with constant weights.

    Convolution kernels and other functions that must not be merged become machine code.
    Element-wise functions stay tensor expressions.
    """
    scheduled, added = _scheduled(mod, machine, policy)
    return compile_functions(scheduled, machine, lambda var, _func: var.name_hint in added)


@compiler_lock()
def _scheduled(mod: IRModule, machine: Device, policy: Policy | None) -> tuple[IRModule, set[str]]:
    """The module with scheduled kernels, and the names of the functions to compile."""
    visitor = _Substitution(mod, machine, policy)
    for var, func in mod.functions_items():
        if isinstance(func, relax.Function) and not (func.attrs and func.attrs.get("Primitive")):
            visitor.builder_.update_func(var, visitor.visit_expr(func))
    if policy is not None:
        check_used(policy.overrides, visitor.layers)
    if visitor.skipped:
        warnings.warn(
            f"SubstituteConv2d left {printable(', '.join(visitor.skipped))} alone: the weight is "
            "not a constant of static float32 type. Bind it with relax.transform.BindParams first.",
            stacklevel=4,
        )
    result = without_unused(visitor.builder_.get(), visitor.replaced)
    return _scheduled_opaque(result, mod, machine)


@mutator
class _Substitution(PyExprMutator):
    def __init__(self, mod: IRModule, machine: Device, policy: Policy | None) -> None:
        super().__init__(mod)
        self.mod = mod
        self.machine = machine
        self.policy = policy
        self.kernels: dict[Kernel, GlobalVar] = {}
        self.skipped: list[str] = []
        self.layers: list[str] = []
        self.replaced: set[GlobalVar] = set()

    def visit_dataflow_block_(self, block: BindingBlock) -> BindingBlock:
        """Rewrite a block if a convolution in it can be replaced."""
        if not all(is_readable(binding) for binding in block.bindings):
            return super().visit_dataflow_block_(block)
        free = _free_tensors(block)
        inputs = {var: value_of(var) for var in free}
        nodes, environment = read_bindings(block.bindings, inputs)
        results = [b.var for b in block.bindings if not isinstance(b.var, relax.DataflowVar)]
        outputs = [environment[var] for var in results]
        flat = [value for bound in outputs for value in _parts(bound)]
        if not all(isinstance(value, Value) for value in flat):
            return super().visit_dataflow_block_(block)
        graph = Graph(list(inputs.values()), nodes, flat)
        self.skipped += [node.layer for node in nodes if _has_free_weight(node)]
        if not any(_is_conv(node) for node in nodes):
            return super().visit_dataflow_block_(block)
        self.replaced |= read_functions(graph, self.mod)
        prepare(graph, self.machine, self.policy)
        self.layers += [node.layer for node in graph.nodes if node.op == CONV]
        if not any(node.op == CONV for node in graph.nodes):
            return super().visit_dataflow_block_(block)
        return self._emit(graph, [self.visit_expr(var) for var in free], results, outputs)

    def _emit(
        self, graph: Graph, inputs: list[RelaxExpr], results: list[RelaxVar], outputs: list[Bound]
    ) -> BindingBlock:
        plan = plan_layouts(graph, self.machine, policy=self.policy)
        relax.begin_dataflow(self.builder_)
        emitter = Emitter(self.builder_, self.machine, plan, self.kernels)
        remaining = emit_graph(emitter, graph, inputs)
        for var, bound in zip(results, outputs, strict=True):
            count = len(_parts(bound))
            mine, remaining = remaining[:count], remaining[count:]
            expr = relax.Tuple(mine) if isinstance(bound, list) else mine[0]
            self.set_var_remap(var, self.builder_.emit_output(expr, name_hint=str(var.name)))
        return relax.end_block(self.builder_)


def _parts(bound: Bound) -> list[Arg]:
    """The tensors of a variable."""
    return bound if isinstance(bound, list) else [bound]


def _free_tensors(block: BindingBlock) -> list[RelaxVar]:
    """Variables with tensor or tuple type that a block reads and does not define."""
    defined = {binding.var for binding in block.bindings}
    free: dict[RelaxVar, None] = {}

    def visit(expr: RelaxExpr) -> None:
        if isinstance(expr, relax.Var) and expr not in defined and _is_tensor(expr):
            free.setdefault(expr)

    for binding in block.bindings:
        relax.analysis.post_order_visit(binding.value, visit)
    return list(free)


def _is_tensor(var: RelaxVar) -> bool:
    return isinstance(var.ty, relax.TensorType | relax.TupleType)


def _is_conv(node: Node) -> bool:
    return node.op.startswith("nn.conv") and node.op[7:8] in ("1", "2", "3")


def _has_free_weight(node: Node) -> bool:
    weight = node.args[1] if _is_conv(node) else None
    return weight is not None and not _constant_based(weight)


def _constant_based(value: Arg) -> bool:
    """Whether a weight is a constant or computed from constants only."""
    if not isinstance(value, Value):
        return False
    if value.is_const:
        return True
    made = value.producer
    return made is not None and bool(made.inputs) and all(map(_constant_based, made.inputs))


def _scheduled_opaque(
    mod: IRModule, before: IRModule, machine: Device
) -> tuple[IRModule, set[str]]:
    """Schedule the functions that the substitution added and that must not be merged."""
    known = {var.name_hint for var in before.get_global_vars()}
    functions, added = {}, set[str]()
    for var, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and func.attrs and var.name_hint not in known:
            done = func.attrs.get(SCHEDULED)
            if done or func.attrs.get("op_pattern") == OPAQUE:
                func = func if done else schedule_function(func, machine)
                added.add(var.name_hint)
        functions[var] = func
    return ir.IRModule(functions, attrs=mod.attrs), added
