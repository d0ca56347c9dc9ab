"""``explain --layer``: everything about the selection for equal layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmconv.core.decision import Decision
from tvmconv.machines.device import Device
from tvmconv.report.document import Report
from tvmconv.report.knobs import knob_values
from tvmconv.report.reasons import algorithm_text
from tvmconv.report.shapes import shape_text
from tvmconv.report.table import Column, Table

_CANDIDATES = (
    Column("algorithm", "algorithm"),
    Column("predicted_seconds", "ms", ".3f", 1e3),
    Column("workspace", "workspace"),
    Column("packed_weight", "weights"),
    Column("error_estimate", "error", ".1e"),
    Column("config", "schedule"),
    Column("short", "verdict"),
)
# facts, and their keys in a row of the decisions
_FACTS = {
    "problem": "workload",
    "reason": "reason",
    "schedule": "config",
    "schedule_from": "source",
    "precision": "precision",
    "predicted_seconds": "predicted_seconds",
    "limit_share": "limit_share",
    "measured_seconds": "seconds",
    "workspace_bytes": "workspace_bytes",
    "packed_weight_bytes": "packed_weight_bytes",
    "error_estimate": "error_estimate",
    "error_measured": "error_measured",
    "rounding_error": "rounding_error",
    "kernel": "kernel",
}


def explain_layer(report: Report, layers: Sequence[Decision], machine: Device) -> Report:
    """The part of a report of :func:`~tvmconv.report.explain.explain_report` about equal layers."""
    named = {table.name: table.rows for table in report.tables}
    keys = {(decision.layer, decision.kernel) for decision in layers}
    rows = [row for row in named["layers"] if (row["layer"], row["kernel"]) in keys]
    row, decision = rows[0], layers[0]
    considered = [
        {**each, "short": _verdict(each, row["predicted_cycles"])}
        for each in named["candidates"]
        if each["workload"] == row["workload"] and row["layer"] in each["layers"].split(", ")
    ]
    facts = {name: _fact(rows, key) for name, key in _FACTS.items()}
    names = ", ".join(decision.layer for decision in layers)
    able = [each for each in considered if "predicted_cycles" in each]
    return Report(
        kind="layer",
        title=f"{names}: {algorithm_text(decision.chosen)} for {shape_text(row['workload'])}",
        facts={name: value for name, value in facts.items() if value is not None},
        tables=(
            Table("candidates", "Candidates", _CANDIDATES, considered, brief=able),
            knob_values(decision, machine),
        ),
        notes=tuple(
            f"Not {each['algorithm']}: {each['verdict']}."
            for each in considered
            if "predicted_cycles" not in each
        ),
    )


def _verdict(row: Mapping[str, Any], cycles: float) -> str:
    """``1.07x the time (weights +0.003 M)``, or the limit that excludes a candidate."""
    if row["cause"] != "slower":
        return str(row["verdict"])
    _, bracket, parts = row["verdict"].partition(" (")
    return f"{row['predicted_cycles'] / cycles:.2f}x the time{bracket}{parts}"


def _fact(rows: Sequence[Mapping[str, Any]], key: str) -> Any:
    """The value of all layers, or a list of their values."""
    values = [row.get(key) for row in rows]
    return values[0] if values.count(values[0]) == len(values) else values
