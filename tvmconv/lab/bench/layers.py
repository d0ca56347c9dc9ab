"""The layer table: the cost of every kernel of a call, compared with the measured machine peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tvmconv.core.decision import Decision
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.bench.peak import Peak, measure_peak
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.record import processor
from tvmconv.report.document import Report
from tvmconv.report.reasons import algorithm_text
from tvmconv.report.shapes import shape_text
from tvmconv.report.summary import (
    compiled_for,
    macs_text,
    memory_table,
    memory_text,
    model_facts,
)
from tvmconv.report.table import Column, Table, grouped, plain, seconds_text
from tvmconv.runtime.executable import Executable

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts
    from tvmconv.model import CompiledModel
    from tvmconv.remote import RemoteModel
    from tvmconv.runtime.profile import KernelTiming, Profile

_COLUMNS = (
    *plain("layer", "shape", "algorithm"),
    Column("config", "schedule"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("time_share", "% of time", ".1f", 100),
    Column("gflops", "GFLOP/s", ".1f"),
    Column("peak_share", "% of peak", ".1f", 100),
    Column("gbs", "GB/s", ".1f"),
)
_GROUPS = (
    Column("algorithm", "kind"),
    Column("calls", "calls"),
    *_COLUMNS[4:8],
)

_SHORT = (
    Column("layer", "layer"),
    Column("count", ""),
    *plain("shape", "algorithm"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("time_share", "% time", ".1f", 100),
    Column("gflops", "GFLOP/s", ".1f", leaves=2),
    Column("peak_share", "% peak", ".1f", 100, leaves=1),
)
_SHOWN_KINDS = 3
_POINTER = "Equal layers share a row; ms is their sum. Winograd may exceed 100% of peak. More: -v."


def profile_report(
    model: CompiledModel | RemoteModel,
    inputs: Mapping[str, Any] | None = None,
    repeat: int = 20,
) -> Report:
    """Profile a model, with the peak of the CPU or GPU probed before and after.

    The peak of a device is not known. ``inputs`` are seeded random values by default. The report
    has the tables ``layers`` in execution order, ``kinds`` and ``memory``.
    """
    if not isinstance(model, Executable):
        return layer_report(model, model.profile(inputs, repeat=repeat), None)
    before, unknown = peak_of(model)
    profile = model.profile(inputs, repeat=repeat)
    after = None if before is None else peak_of(model)[0]
    probes = [probe for probe in (before, after) if probe is not None]
    best = max(probes, key=lambda probe: probe.gflops, default=None)
    return layer_report(model, profile, best, unknown)


def peak_of(model: CompiledModel) -> tuple[Peak | None, str]:
    """The measured peak of the CPU or GPU that a model runs on.

    None for a GPU if nothing compiles the probes, with the reason.
    """
    if not isinstance(model.machine, CudaMachine):
        return measure_peak(processor(model.machine), model.threads), ""
    from tvmconv.lab.bench.gpu.probes import gpu_peak

    try:
        return gpu_peak(model.machine, model._gpu.device), ""
    except ArtifactError as error:
        return None, f"The GPU's peak is not known: {error}."


def layer_report(model: ModelFacts, profile: Profile, peak: Peak | None, note: str = "") -> Report:
    """The report of a profile, with ``note`` as one more note.

    ``events`` of its data are a trace for ``{"traceEvents": [...]}``.
    """
    decisions = {(d.layer, d.kernel): d for d in model.decisions}
    total = profile.kernel_seconds or 1.0
    best = peak.gflops if peak else None
    rows = [_row(kernel, decisions, total, best) for kernel in profile]
    flops = sum(row["flops"] for row in rows)
    rate = flops / profile.total.min * 1e-9
    limits = {}
    if peak is not None:
        limits = {"peak_gflops": peak.gflops, "peak_share": rate / peak.gflops}
        limits["memory_read_gbs"] = peak.read_gbs
    facts = {
        **model_facts(model),
        "call_seconds_min": profile.total.min,
        "call_seconds_median": profile.total.median,
        "kernel_seconds": profile.kernel_seconds,
        "gflop": flops * 1e-9,
        "gflops": rate,
        **limits,
    }
    kinds, noted = _groups(rows, total, best), (note,) if note else ()
    return Report(
        kind="profile",
        title=f"{model.name}: {profile.total.min * 1e3:.3f} ms a call",
        facts=facts,
        tables=(
            Table("layers", "Layers", _COLUMNS, rows),
            Table("kinds", "By kind", _GROUPS, kinds),
            memory_table(model),
        ),
        notes=("GFLOP/s count the nominal operations of the layer at the median time.", *noted),
        data={
            "profile": profile.to_json(),
            "peak": asdict(peak) if peak else None,
            "events": profile.trace_events(),
        },
        brief=_brief(model, facts, rows, kinds, noted),
    )


def _row(
    kernel: KernelTiming,
    decisions: Mapping[tuple[str, str], Decision],
    total: float,
    peak: float | None,
) -> dict[str, Any]:
    call = kernel.call
    decision = decisions.get((call.layer, call.kernel))
    computes = call.flops > 0 and decision is not None
    return {
        "layer": call.layer or call.operator,
        "kernel": call.kernel,
        "operator": call.operator,
        "workload": call.workload,
        "shape": shape_text(call.workload, stride=" s"),
        "algorithm": decision.chosen.algorithm if decision else call.operator,
        "config": str(decision.chosen.config) if decision else "",
        "seconds": kernel.seconds,
        "seconds_min": kernel.seconds_min,
        "time_share": kernel.seconds / total,
        "flops": call.flops,
        "bytes": call.bytes,
        "gflops": kernel.gflops if computes else None,
        "peak_share": kernel.gflops / peak if computes and peak else None,
        "gbs": kernel.gbytes or None,
    }


def _groups(rows: list[dict[str, Any]], total: float, peak: float | None) -> list[dict[str, Any]]:
    """Rows summed by algorithm or operator, slowest first."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["algorithm"], []).append(row)
    summed = []
    for name, members in groups.items():
        seconds = sum(row["seconds"] for row in members)
        flops = sum(row["flops"] for row in members if row["gflops"] is not None)
        rate = flops / seconds * 1e-9 if flops and seconds else None
        summed.append(
            {
                "algorithm": name,
                "calls": len(members),
                "seconds": seconds,
                "time_share": seconds / total,
                "gflops": rate,
                "peak_share": rate / peak if rate and peak else None,
            }
        )
    return sorted(summed, key=lambda group: -float(group["seconds"]))


def _brief(
    model: ModelFacts,
    facts: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    kinds: Sequence[Mapping[str, Any]],
    notes: tuple[str, ...],
) -> Report:
    """The short view: one line for each shape of a layer.

    ``layers`` and ``kinds`` are rows of the report's tables, ``notes`` the notes on the measurement
    that the user must know.
    """
    peak = facts.get("peak_gflops")
    speed = f"{facts['gflops']:.1f} GFLOP/s"
    if peak:
        speed += f", {facts['peak_share']:.0%} of the measured peak of {peak:.1f} GFLOP/s"
    shares = [f"{kind['algorithm']} {kind['time_share']:.0%}" for kind in kinds[:_SHOWN_KINDS]]
    kernels = seconds_text(facts["kernel_seconds"])
    least, median = facts["call_seconds_min"], facts["call_seconds_median"]
    return Report(
        kind="profile",
        title=f"{model.name}: {seconds_text(least)} a call, {compiled_for(model)}",
        facts={
            "speed": f"{speed}; {macs_text(model)}",
            "time": f"median {seconds_text(median)}; {kernels} in kernels: {', '.join(shares)}",
            "memory": memory_text(model.memory),
        },
        tables=(Table("layers", "", _SHORT, _shape_rows(model, layers, peak), one_line=True),),
        notes=(*notes, _POINTER),
    )


def _shape_rows(
    model: ModelFacts, layers: Sequence[Mapping[str, Any]], peak: float | None
) -> list[dict[str, Any]]:
    """Calls; calls of equal shape and algorithm share a row."""
    chosen = {(d.layer, d.kernel): d.chosen for d in model.decisions}
    rows = []
    for row in layers:
        candidate = chosen.get((row["layer"], row["kernel"]))
        algorithm = algorithm_text(candidate) if candidate else row["algorithm"]
        rows.append({**row, "shape": shape_text(row["workload"]), "algorithm": algorithm})
    made = grouped(rows, ("shape", "algorithm"), sums=("time_share", "flops"))
    for row in made:
        if row["gflops"] is not None and row["seconds"]:
            row["gflops"] = row["flops"] / row["seconds"] * 1e-9
            row["peak_share"] = row["gflops"] / peak if peak else None
    return made
