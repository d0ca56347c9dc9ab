"""The short view of ``profile``: one line for each shape of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.reasons import algorithm_text
from tvmconv.report.shapes import shape_text
from tvmconv.report.summary import compiled_for, macs_text, memory_text
from tvmconv.report.table import Column, Table, grouped, seconds_text

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

_COLUMNS = (
    Column("layer", "layer"),
    Column("count", ""),
    Column("shape", "shape"),
    Column("algorithm", "algorithm"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("time_share", "% time", ".1f", 100),
    Column("gflops", "GFLOP/s", ".1f", leaves=2),
    Column("peak_share", "% peak", ".1f", 100, leaves=1),
)
_KINDS = 3
_POINTER = "Equal layers share a row; ms is their sum. Winograd may exceed 100% of peak. More: -v."


def profile_brief(
    model: ModelFacts,
    facts: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    kinds: Sequence[Mapping[str, Any]],
    notes: tuple[str, ...],
) -> Report:
    """The short view of a report.

    Parameters
    ----------
    model
        The model.
    facts
        Facts of the report.
    layers, kinds
        Rows of the report's tables.
    notes
        Notes on the measurement that the user must know.
    """
    peak = facts.get("peak_gflops")
    speed = f"{facts['gflops']:.1f} GFLOP/s"
    if peak:
        speed += f", {facts['peak_share']:.0%} of the measured peak of {peak:.1f} GFLOP/s"
    shares = [f"{kind['algorithm']} {kind['time_share']:.0%}" for kind in kinds[:_KINDS]]
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
        tables=(Table("layers", "", _COLUMNS, _rows(model, layers, peak), one_line=True),),
        notes=(*notes, _POINTER),
    )


def _rows(
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
