"""``explain --layer``: everything about the selection for one layer."""

from __future__ import annotations

from collections.abc import Mapping
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
    Column("short", "verdict"),
    Column("config", "schedule", leaves=1),
)
# verdicts by cause, for one line
_VERDICTS = {
    "error": "error budget",
    "memory": "memory budget",
    "disallowed": "not allowed",
    "finite": "NaN-safe mode",
    "overflow": "would overflow",
    "range": "out of range",
    "overridden": "overridden",
}


def explain_layer(report: Report, decision: Decision, machine: Device) -> Report:
    """The part of a report of :func:`~tvmconv.report.explain.explain_report` about a layer."""
    named = {table.name: table for table in report.tables}
    layers, candidates = named["layers"].rows, named["candidates"]
    row = next(
        row for row in layers if (row["layer"], row["kernel"]) == (decision.layer, decision.kernel)
    )
    considered = [
        {**each, "short": _verdict(each, row["predicted_cycles"])}
        for each in candidates.rows
        if each["workload"] == row["workload"] and row["layer"] in each["layers"].split(", ")
    ]
    shape = shape_text(row["workload"])
    able = [each for each in considered if "predicted_cycles" in each]
    return Report(
        kind="layer",
        title=f"{decision.layer}: {algorithm_text(decision.chosen)} for {shape}",
        facts=_facts(row),
        tables=(
            Table("candidates", "Candidates", _CANDIDATES, considered, brief=able, one_line=True),
            knob_values(decision, machine),
        ),
        notes=tuple(
            f"Not {each['algorithm']}: {each['verdict']}."
            for each in considered
            if "predicted_cycles" not in each
        ),
    )


def _verdict(row: Mapping[str, Any], cycles: float) -> str:
    """``1.07x the time``, or which option excludes a candidate."""
    if row["cause"] == "slower":
        return f"{row['predicted_cycles'] / cycles:.2f}x the time"
    return _VERDICTS.get(row["cause"]) or str(row["verdict"])


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    facts = {
        "problem": row["workload"],
        "reason": row["reason"],
        "schedule": row["config"],
        "schedule_from": row["source"],
        "precision": row["precision"],
        "predicted_seconds": row["predicted_seconds"],
        "measured_seconds": row.get("seconds"),
        "workspace_bytes": row["workspace_bytes"],
        "packed_weight_bytes": row["packed_weight_bytes"],
        "error_estimate": row["error_estimate"],
        "error_measured": row.get("error_measured"),
        "rounding_error": row["rounding_error"],
        "kernel": row["kernel"],
    }
    return {name: value for name, value in facts.items() if value is not None}
