"""The algorithm of every layer, the reason, and the other candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmconv.artifact.facts import TargetFacts
from tvmconv.core.decision import ATTENTION_CALL, PIXEL_CONV, Decision, Unscheduled
from tvmconv.core.stored_types import wide_type
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.report.candidates import alike, candidate_row, candidates_table
from tvmconv.report.clock import Clock, clock_of
from tvmconv.report.document import Report
from tvmconv.report.explain_brief import explain_brief
from tvmconv.report.explain_layer import explain_layer
from tvmconv.report.knobs import knobs_table
from tvmconv.report.launches import LEGEND, launch_facts, launches_table, limit_share
from tvmconv.report.programs import programs_report
from tvmconv.report.summary import (
    connected_layers,
    layers_text,
    memory_table,
    model_facts,
    pixel_layers,
)
from tvmconv.report.table import Column, Table, plain
from tvmconv.report.targets import targets_report

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

_DECISIONS = (
    Column("layer", "layer"),
    Column("workload", "problem"),
    *plain("algorithm", "precision"),
    Column("config", "schedule"),
    Column("source", "from"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("limit_share", "% of limit", ".0f", 100),
    Column("seconds", "measured ms", ".3f", 1e3),
    Column("workspace", "workspace"),
    Column("packed_weight", "weights"),
    Column("error_estimate", "error est.", ".1e"),
    Column("error_measured", "error meas.", ".1e"),
    Column("rounding_error", "rounding err.", ".1e"),
    Column("reason", "reason"),
)
# columns of models in which some layers round operands
_ROUNDED = ("precision", "rounding_error")
# columns of GPUs and of measurements
_OPTIONAL = ("limit_share", "seconds", "error_measured")
_LEGEND = (
    "problem: the convolution, in the form of `tvmconv bench run --layer` . "
    "schedule: values of the algorithm's knobs, which --knobs explains. from: their origin, the "
    "cost model (default) or a tuning log.",
    "predicted: by the cost model at the clock above. M cycles are millions. Brackets show by how "
    "much the other candidate is slower (+) or faster (-) in each part. workspace: scratch "
    "memory of a call. weights: their size as packed for the algorithm.",
)
_ROUNDING = (
    "Rounding errors are measured while building, on products of the layer's weights and 128 "
    "pixels of such input with rounded operands and float32 accumulators."
)
# reasons for calls without alternatives
_SCALABLE = {
    "SVE": "its loops over pixels use scalable vectors",
    "SVE and NEON": "some of its loops use scalable vectors",
}
_WHY = Column("reason", "why")
_UNSCHEDULED = (*plain("layer", "operator"), _WHY)
_PIXELS = (Column("layer", "layer"), Column("workload", "problem"), _WHY)
# operators whose notes have a table of their own
_NOTED = (PIXEL_CONV, ATTENTION_CALL)
_VECTORS = (*plain("layer", "operator", "algorithm"), Column("vectors", "code"), _WHY)


def explain_report(
    model: ModelFacts,
    errors: Sequence[float] | None = None,
    seconds: Mapping[tuple[str, str], float] | None = None,
    peak: tuple[float, float] | None = None,
    knobs: bool = False,
    estimates: tuple[Table, Mapping[str, Any]] | None = None,
) -> Report:
    """The report of every decision; nothing is chosen again for it.

    Parameters
    ----------
    model
        A built or loaded model.
    errors
        Measured error of every decision; max|error| / max|reference|.
    seconds
        Measured time of a call by (layer, kernel).
    peak
        Measured FMA peak in GFLOP/s and memory read bandwidth in GB/s.
    knobs
        Whether to explain the knobs of the chosen schedules.
    estimates
        Estimated cycles of each layer: a table, and facts for the head of the report.

    Returns
    -------
    Report
        Always has the tables ``layers``, ``candidates`` and ``memory``, and where they apply
        ``estimates``, ``knobs``, ``vectors``, ``launches``, ``unscheduled``, ``positions``,
        ``attention`` and ``in_float``. ``str()`` of it is the short view. The report of a model
        with several input shapes has a table ``shapes`` and a report of each shape, without
        measurements. With several targets, the report has a table ``targets`` and describes one of
        them.
    """
    if model.manifest.targets:
        alone = TargetFacts(replace(model.manifest, targets=()))
        report = explain_report(alone, errors, seconds, peak, knobs, estimates)
        return targets_report(model, report)
    if len(model.programs) > 1:
        reports = [explain_report(program, knobs=knobs) for program in model.programs]
        return programs_report(model, reports)
    decisions, clock = model.decisions, clock_of(model.machine)
    facts = {**model_facts(model), **_convolution_facts(decisions, clock, model.machine)}
    facts["convolutions"] += pixel_layers(model)
    if connected := connected_layers(model):
        facts["fully_connected_layers"] = connected
    gpu = model.machine if isinstance(model.machine, CudaMachine) else None
    if gpu:
        facts |= launch_facts(model.calls, gpu)
    precise = any(d.chosen.precision for d in decisions)
    if errors:
        facts["largest_error_measured"] = max(errors)
    if peak is not None:
        facts |= {"peak_gflops": peak[0], "memory_read_gbs": peak[1]}
    if estimates is not None:
        facts |= estimates[1]
    if stored := _stored_types(model):
        facts["stored_types"] = stored
    left = model.unscheduled
    if left:
        facts["unscheduled_convolutions"] = len(left)
    layers = _layers_table(model, clock, seconds, errors)
    estimated = () if estimates is None else (estimates[0],)
    described = (knobs_table(decisions, model.machine),) if knobs else ()
    report = Report(
        kind="explain",
        title=_title(model),
        facts=facts,
        tables=(
            layers,
            *estimated,
            candidates_table(decisions, clock),
            *([_vectors_table(model)] if any(call.vectors for call in model.calls) else []),
            *([launches_table(model.calls, gpu)] if gpu else []),
            memory_table(model),
            *([_unscheduled_table(left)] if left else []),
            *_noted_tables(model),
            *described,
        ),
        notes=(
            *_LEGEND,
            *([LEGEND] if gpu else []),
            "Errors are max|error| / max|reference| against float64 on normally distributed "
            "input. Layers share one workspace: its peak is the largest.",
            *([_ROUNDING] if precise else []),
        ),
        data={"calls": [call.to_json() for call in model.calls]},
        brief=explain_brief(model, _title(model), facts, layers.rows, (*estimated, *described)),
    )
    details = tuple(explain_layer(report, group, model.machine) for group in alike(decisions))
    return replace(report, details=details)


def _stored_types(model: ModelFacts) -> str:
    """The types in which inputs and outputs are computed, where no kernel computes in their own."""
    names = dict.fromkeys(info.dtype for info in (*model.inputs, *model.outputs))
    wide = {name: wide_type(name) for name in names if wide_type(name) != name}
    return "; ".join(f"{name} computes in {computed}" for name, computed in wide.items())


def _layers_table(
    model: ModelFacts,
    clock: Clock,
    seconds: Mapping[tuple[str, str], float] | None,
    errors: Sequence[float] | None,
) -> Table:
    """A row for every decision, with the columns for this target and these measurements."""
    rows = [_decision(decision, clock) for decision in model.decisions]
    for index, (row, decision) in enumerate(zip(rows, model.decisions, strict=True)):
        if isinstance(model.machine, CudaMachine):
            row["limit_share"] = limit_share(decision, model.machine)
        if seconds is not None:
            row["seconds"] = seconds.get((decision.layer, decision.kernel))
        if errors is not None:
            row["error_measured"] = errors[index]
    hidden = {key for key in _OPTIONAL if not any(key in row for row in rows)}
    is_rounded = any(decision.chosen.precision for decision in model.decisions)
    if not is_rounded and not model.manifest.policy.get("precision"):
        hidden.update(_ROUNDED)
    columns = tuple(column for column in _DECISIONS if column.key not in hidden)
    return Table("layers", "Decisions", columns, rows, brief=())


def _convolution_facts(
    decisions: Sequence[Decision], clock: Clock, machine: Device
) -> dict[str, Any]:
    """Sums and extremes over all decisions."""
    facts: dict[str, Any] = {
        "convolutions": sum(not d.workload.is_matrix for d in decisions),
        "predicted_convolution_seconds": clock.seconds(sum(d.chosen.cycles for d in decisions)),
        "predicted_at": str(clock),
        "rates": machine.rates_origin,
        "peak_workspace_bytes": max((d.chosen.workspace_bytes for d in decisions), default=0),
        "packed_weight_bytes": sum(d.chosen.packed_weight_bytes for d in decisions),
        "largest_error_estimate": max((d.chosen.error for d in decisions), default=0.0),
    }
    precise = [d for d in decisions if d.chosen.precision]
    if precise:
        facts["precisions"] = dict(Counter(d.precision for d in decisions).most_common())
        facts["largest_rounding_error"] = max(d.rounding_error or 0.0 for d in precise)
    if integers := sum(d.workload.types.is_integer for d in decisions):
        facts["integer_convolutions"] = integers
    return facts


def _title(model: ModelFacts) -> str:
    left = len(model.unscheduled)
    warning = f"; WARNING: {left} of them run as plain loops, see below" if left else ""
    return f"{model.name}: {layers_text(model)}{warning}"


def _unscheduled_table(left: Sequence[Unscheduled]) -> Table:
    title = "WARNING: no algorithm supports these convolutions; they run as plain loops"
    return Table("unscheduled", title, _UNSCHEDULED, [item.to_json() for item in left])


def _noted_tables(model: ModelFacts) -> list[Table]:
    """Layers without candidates: vectors of positions, attention, quantized layers in FP32."""
    tables = []
    for name, title, operator, columns in (
        (
            "positions",
            "Convolutions of plain tensors, by vectors of positions",
            PIXEL_CONV,
            _PIXELS,
        ),
        ("attention", "Attention without stored scores", ATTENTION_CALL, _UNSCHEDULED),
        ("in_float", "In float32 although quantized", "", _UNSCHEDULED),
    ):
        rows = [
            {"layer": c.layer, "operator": c.operator, "workload": c.workload, "reason": c.note}
            for c in model.calls
            if c.note and (c.operator if c.operator in _NOTED else "") == operator
        ]
        if rows:
            tables.append(Table(name, title, columns, rows))
    return tables


def _vectors_table(model: ModelFacts) -> Table:
    """The vectors of each call's code, scalable or NEON, with the reason."""
    decisions = {(d.layer, d.kernel): d for d in model.decisions}
    rows = []
    for call in model.calls:
        decision = decisions.get((call.layer, call.kernel))
        code, _, reason = call.vectors.partition(": ")
        if decision and bool(decision.chosen.config.get("vectors", 0)) == code.startswith("SVE"):
            reason = decision.reason.rpartition("; ")[2].partition(" code: ")[2] or reason
        rows.append(
            {
                "layer": call.layer or call.operator,
                "kernel": call.kernel,
                "operator": call.operator,
                "algorithm": decision.chosen.algorithm if decision else "",
                "vectors": code,
                "reason": reason or _SCALABLE.get(code, ""),
            }
        )
    return Table("vectors", "SVE or NEON code", _VECTORS, rows)


def _decision(decision: Decision, clock: Clock) -> dict[str, Any]:
    return {
        "layer": decision.layer,
        "workload": str(decision.workload),
        "kernel": decision.kernel,
        "precision": decision.precision,
        "rounding_error": decision.rounding_error,
        **candidate_row(decision.chosen, clock),
        "reason": decision.reason,
    }
