"""Relax module of an imported network -> module of scheduled kernels and operator functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.compile.culprit import failing_operators
from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.unexpected import reported
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.graph import emit_graph
from tvmconv.graph.fusion import group_operators
from tvmconv.graph.ir import Graph, Node
from tvmconv.graph.layout import LayoutPlan, oihw_weight
from tvmconv.graph.match import unscheduled
from tvmconv.graph.prelude import plan_module
from tvmconv.machines.device import Device
from tvmconv.program.collect import CALLS, tensor_bytes
from tvmconv.selection.policy import Policy
from tvmconv.tvm_api import ir, relax
from tvmconv.tvm_api.types import Binding, Function, IRModule, RelaxExpr

# stage name, done, total
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LoweredGraph:
    """A network ready to be compiled.

    The function ``main`` of ``mod`` calls only ``PrimFunc`` s, and reshapes, which are views.
    Convolution kernels are scheduled, weights are packed constants. ``decisions`` has one for each
    convolution, and each layer that runs as one, in execution order like ``calls``. ``reorders``
    counts layout changes that move data. ``padding_overhead_bytes`` are bytes of activations and
    weights that pad the last channel block. No algorithm computes the convolutions in
    ``unscheduled``.
    """

    mod: IRModule
    decisions: tuple[Decision, ...]
    calls: tuple[KernelCall, ...]
    reorders: int
    padding_overhead_bytes: int
    unscheduled: tuple[Unscheduled, ...] = ()


def lower(
    mod: IRModule,
    machine: Device,
    *,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> LoweredGraph:
    """Select and fuse kernels for the function ``main`` of :func:`tvmconv.frontend.to_relax`.

    ``progress`` is called with a stage's name, the steps done and the total steps. Raises
    ``ConfigError`` if no allowed algorithm computes a layer; the message names it.
    """
    planned = plan_module(mod, machine, policy, _stage("choose algorithms", progress))
    graph, plan = planned.graph, planned.plan
    # some of TVM's converters (Einsum) add functions
    others = {var: func for var, func in mod.functions_items() if var.name_hint != "main"}
    builder = relax.BlockBuilder(ir.IRModule(others))
    emitter = Emitter(builder, machine, plan, shares=True)
    parameters = [relax.Var(var.name, var.ty) for var in mod["main"].params]
    single = isinstance(mod["main"].body.body.ty, relax.TensorType)
    with builder.function("main", parameters):
        with relax.dataflow(builder):
            results = emit_graph(emitter, graph, parameters, _stage("schedule kernels", progress))
            result = builder.emit_output(results[0] if single else relax.Tuple(results))
        builder.emit_func_output(result)
    finished, merged = fuse_operators(builder.finalize(), emitter.records)
    records = dict(emitter.records)
    # the output may be an input or a constant
    if single and (name := str(getattr(results[0], "name", ""))) in records:
        # passes drop the alias and keep the name of the output variable
        records[str(result.name)] = records[name]
    calls = kernel_calls(finished["main"], records, merged)
    decisions = _named_decisions(graph, plan, emitter)
    return LoweredGraph(
        finished, decisions, calls, emitter.reorders, emitter.padding_bytes, unscheduled(graph)
    )


def fuse_operators(
    mod: IRModule, records: Mapping[str, CallRecord]
) -> tuple[IRModule, dict[str, CallRecord]]:
    """Lower the remaining Relax operators to functions and merge element-wise chains.

    ``records`` describe the variables of ``main``. Returns the module, and a record by symbol for
    the merged functions.
    """
    transform = relax.transform
    legalize = transform.LegalizeOps()
    after = [transform.FuseTIR(), transform.DeadCodeElimination()]
    with reported(lambda: failing_operators(mod, partial(_described, records), legalize)):
        legal = legalize(mod)
    grouped = group_operators(legal)
    merged = _merged_records(grouped, records)
    return ir.transform.Sequential(after)(grouped), merged


def _described(records: Mapping[str, CallRecord], variable: str) -> str:
    record = records.get(variable, CallRecord("", variable))
    return f"node {record.layer!r} ({record.operator})"


def _merged_records(mod: IRModule, records: Mapping[str, CallRecord]) -> dict[str, CallRecord]:
    """Records of the functions that FuseOps made, by symbol.

    A function that several places call has no layer name.
    """
    calls = Counter(
        binding.value.op.name_hint
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(getattr(binding.value, "op", None), ir.GlobalVar)
    )
    merged: dict[str, CallRecord] = {}
    for symbol, count in calls.items():
        bindings = [b for block in mod[symbol].body.blocks for b in block.bindings]
        parts = [_part(b, records) for b in bindings if isinstance(b.value, ir.Call)]
        layers = list(dict.fromkeys(part.layer for part in parts if part.layer))
        names = layers if len(layers) < 3 else [layers[0], "...", layers[-1]]
        operators = dict.fromkeys(part.operator for part in parts)
        merged[symbol] = CallRecord(
            "+".join(names) if count == 1 else "",
            "+".join(operators) or symbol,
            flops=sum(part.flops for part in parts),
        )
    return merged


def _part(binding: Binding, records: Mapping[str, CallRecord]) -> CallRecord:
    """One operator of a merged function, whose last variable does not have its name any more."""
    called = str(getattr(binding.value.args[0], "name_hint", ""))
    return records.get(str(binding.var.name)) or CallRecord("", called.rstrip("0123456789"))


def kernel_calls(
    function: Function, records: Mapping[str, CallRecord], merged: Mapping[str, CallRecord]
) -> tuple[KernelCall, ...]:
    """The ``call_tir`` s of a function in order, with their descriptions."""
    calls: list[KernelCall] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if getattr(getattr(value, "op", None), "name", "") not in CALLS:
                continue
            symbol = value.args[0].name_hint
            record = merged.get(symbol) or records.get(str(binding.var.name))
            record = record or CallRecord("", symbol)
            if record.operator == "reshape":
                continue
            size = sum(_bytes(arg) for arg in value.args[1].fields) + _bytes(binding.var)
            calls.append(
                KernelCall(
                    record.layer,
                    symbol,
                    record.operator,
                    record.workload,
                    record.flops,
                    size,
                    note=record.note,
                )
            )
    return tuple(calls)


def _bytes(expr: RelaxExpr) -> int:
    return tensor_bytes(expr.ty) if isinstance(expr.ty, relax.TensorType) else 0


def _named_decisions(graph: Graph, plan: LayoutPlan, emitter: Emitter) -> tuple[Decision, ...]:
    """Decisions in execution order with the symbols of their kernels."""
    symbols = {
        (kernel.workload, kernel.algorithm, kernel.config): var.name_hint
        for kernel, var in emitter.kernels.items()
    }
    decided = [(node, plan.decisions[node]) for node in graph.nodes if node in plan.decisions]
    return tuple(
        replace(
            d,
            kernel=symbols[d.workload, d.chosen.algorithm, d.chosen.config],
            rounding_error=_rounding_error(node, d),
        )
        for node, d in decided
    )


def _rounding_error(node: Node, decision: Decision) -> float | None:
    """The error of rounding a layer's operands; None if they are not rounded."""
    if not decision.chosen.precision:
        return None
    weight = oihw_weight(node, decision.workload)
    return PRECISIONS[decision.chosen.precision].measured_error(weight, decision.workload.groups)


def _stage(name: str, progress: Progress | None) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda current, total: progress(name, current, total)
