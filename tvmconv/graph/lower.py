"""Relax module of an imported network -> module of scheduled kernels and operator functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.compile.culprit import failing_operators
from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.errors import ModelError
from tvmconv.core.unexpected import reported
from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.graph import emit_graph
from tvmconv.graph.fusion import group_operators
from tvmconv.graph.ir import Node
from tvmconv.graph.layout import oihw_weight
from tvmconv.graph.match import unscheduled
from tvmconv.graph.prelude import PlannedGraph, agree, plan_module
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.program.collect import CALLS, tensor_bytes
from tvmconv.program.nesting import (
    form_attribute,
    form_of,
    function_names,
    nested_symbols,
    operator_of,
)
from tvmconv.selection.agreement import Agreement
from tvmconv.selection.policy import Policy
from tvmconv.tvm_api import ir, relax
from tvmconv.tvm_api.types import Binding, Function, GlobalVar, IRModule, RelaxExpr

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
    agreement: Agreement | None = None,
) -> LoweredGraph:
    """Select and fuse kernels for the function ``main`` of :func:`tvmconv.frontend.to_relax`.

    ``progress`` is called with a stage's name, the steps done and the total steps. Selections agree
    with programs for other shapes in ``agreement``, to which this one is added. Raises
    ``ConfigError`` if no allowed algorithm computes a layer; the message names it.
    """
    _check_device(mod, machine)
    planned = plan_module(mod, machine, policy, _stage("choose algorithms", progress))
    if agreement is not None:
        agree(planned, agreement)
    names = [each.name for each in planned]
    # some of TVM's converters (Einsum) add functions
    others = {var: func for var, func in mod.functions_items() if var.name_hint not in names}
    builder = relax.BlockBuilder(ir.IRModule(others))
    kernels: dict[Kernel, GlobalVar] = {}
    records: dict[str, CallRecord] = {}
    aliases: dict[str, dict[str, CallRecord]] = {}
    reorders = padding_bytes = 0
    for each in planned:
        emitter = Emitter(builder, machine, each.plan, kernels, records, shares=True)
        aliases[each.name] = _emit_function(emitter, each, mod[each.name], progress)
        reorders += emitter.reorders
        padding_bytes += emitter.padding_bytes
    finished, merged = fuse_operators(builder.finalize(), records)
    return LoweredGraph(
        finished,
        tuple(d for each in planned for d in _named_decisions(each, kernels)),
        tuple(kernel_calls(finished, "main", records, merged, aliases)),
        reorders,
        padding_bytes,
        tuple(left for each in planned for left in unscheduled(each.graph)),
    )


def _emit_function(
    emitter: Emitter, planned: PlannedGraph, function: Function, progress: Progress | None
) -> dict[str, CallRecord]:
    """Add a planned function to the module; returns descriptions of variables of other names."""
    builder = emitter.builder
    parameters = [relax.Var(var.name, var.ty) for var in function.params]
    single = isinstance(function.body.body.ty, relax.TensorType)
    form = form_of(function)
    attributes = form_attribute(form) if form else {}
    with builder.function(planned.name, parameters, attributes):
        with relax.dataflow(builder):
            stage = _stage("schedule kernels", progress)
            results = emit_graph(emitter, planned.graph, parameters, stage)
            result = builder.emit_output(results[0] if single else relax.Tuple(results))
        builder.emit_func_output(result)
    # the output may be an input or a constant
    if single and (name := str(getattr(results[0], "name", ""))) in emitter.records:
        # passes drop the alias and keep the name of the output variable
        return {str(result.name): emitter.records[name]}
    return {}


def _check_device(mod: IRModule, machine: Device) -> None:
    """Refuse nested programs on a device that runs none."""
    if isinstance(machine, Machine):
        return
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if nested_symbols(binding.value):
                raise ModelError(
                    f"node {binding.var.name!r} ({operator_of(binding.value)}): models for "
                    f"{machine.name} run no sub-graphs. Expected a model without If, Loop and "
                    "Scan, or with conditions that are known when it is built. Build for a CPU."
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
        for name in function_names(mod)
        for block in mod[name].body.blocks
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
    mod: IRModule,
    name: str,
    records: Mapping[str, CallRecord],
    merged: Mapping[str, CallRecord],
    aliases: Mapping[str, Mapping[str, CallRecord]],
) -> Iterator[KernelCall]:
    """The calls of a function and its nested functions, in order, with their descriptions.

    ``aliases`` describe variables of other names than ``records`` has, by function.
    """
    known = {**records, **aliases.get(name, {})}
    for block in mod[name].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if nested := nested_symbols(value):
                layer = known.get(str(binding.var.name), CallRecord("", "")).layer
                yield KernelCall(layer, str(value.args[0].global_symbol), operator_of(value))
                for symbol in nested:
                    yield from kernel_calls(mod, symbol, records, merged, aliases)
            if getattr(getattr(value, "op", None), "name", "") not in CALLS:
                continue
            symbol = value.args[0].name_hint
            record = merged.get(symbol) or known.get(str(binding.var.name))
            record = record or CallRecord("", symbol)
            if record.operator == "reshape":
                continue
            size = sum(_bytes(arg) for arg in value.args[1].fields) + _bytes(binding.var)
            yield KernelCall(
                record.layer,
                symbol,
                record.operator,
                record.workload,
                record.flops,
                size,
                note=record.note,
            )


def _bytes(expr: RelaxExpr) -> int:
    return tensor_bytes(expr.ty) if isinstance(expr.ty, relax.TensorType) else 0


def _named_decisions(
    planned: PlannedGraph, kernels: Mapping[Kernel, GlobalVar]
) -> tuple[Decision, ...]:
    """Decisions in execution order with the symbols of their kernels."""
    symbols = {
        (kernel.workload, kernel.algorithm, kernel.config): var.name_hint
        for kernel, var in kernels.items()
    }
    decisions = planned.plan.decisions
    decided = [(node, decisions[node]) for node in planned.graph.nodes if node in decisions]
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
