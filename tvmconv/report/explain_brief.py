"""The short view of ``explain``: one line for each shape of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmconv.core.decision import ATTENTION_CALL, PIXEL_CONV
from tvmconv.report.document import Report
from tvmconv.report.reasons import algorithm_text, short_reason
from tvmconv.report.shapes import shape_text
from tvmconv.report.summary import compiled_for, macs_text, memory_text, predicted_text
from tvmconv.report.table import Column, Table, grouped

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

_FIRST = (Column("layer", "layer"), Column("count", ""), Column("shape", "shape"))
_ALGORITHM = Column("algorithm", "algorithm")
_PREDICTED = Column("predicted_seconds", "ms", ".3f", 1e3)
_REASON = Column("reason", "reason", leaves=1)
# shown if a row has them
_OPTIONAL = (
    Column("seconds", "measured", ".3f", 1e3),
    Column("limit_share", "% of limit", ".0f", 100, leaves=2),
    Column("error_measured", "error", ".1e", leaves=3),
)
# calls without a decision whose note is not about INT8
_NOTED = {PIXEL_CONV: "positions", ATTENTION_CALL: "fused"}
_POINTER = "Equal layers share a row; ms is their sum. More: --layer NAME, or -v for all."


def explain_brief(
    model: ModelFacts,
    title: str,
    facts: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    tables: tuple[Table, ...],
) -> Report:
    """The short view of a report.

    Parameters
    ----------
    model
        The model.
    title, facts
        Title and facts of the report.
    layers
        Rows of the report's table ``layers``, one for each decision.
    tables
        Further tables that the user asked for.
    """
    rows = grouped(_rows(model, layers), ("shape", "precision", "algorithm", "reason"))
    has_precision = any(d.chosen.precision for d in model.decisions)
    columns = (
        *_FIRST,
        *((Column("precision", "precision"),) if has_precision else ()),
        _ALGORITHM,
        _PREDICTED,
        *(column for column in _OPTIONAL if any(row.get(column.key) is not None for row in rows)),
        _REASON,
    )
    return Report(
        kind="explain",
        title=f"{title}, {compiled_for(model)}",
        facts=_head(model, facts),
        tables=(Table("layers", "", columns, rows, one_line=True), *tables),
        notes=(_POINTER,),
    )


def _head(model: ModelFacts, facts: Mapping[str, Any]) -> dict[str, str]:
    error, budget = facts["largest_error_estimate"], facts["error_budget"]
    if "precisions" in facts:
        budget = None  # rounded operands have their own limits
    clock = f" at {facts['predicted_at']}" if model.decisions else ""
    head = {
        "predicted": f"{predicted_text(model)}{clock}; {macs_text(model)}",
        "memory": memory_text(model.memory),
    }
    if "stored_types" in facts:
        head["types"] = facts["stored_types"]
    if "batch" in facts:
        head["batch"] = "any size; one program computes each image, figures are for one image"
    if facts.get("integer_convolutions") == len(model.decisions):
        head["error"] = "none in a layer: sums of integers are exact"
    elif model.decisions:
        head["error"] = f"at most {error:.1e} in a layer, estimated" + (
            f"; the budget is {budget:.1e}" if budget is not None else ""
        )
    if "largest_error_measured" in facts:
        head["error"] += f"; measured {facts['largest_error_measured']:.1e}"
    if "peak_gflops" in facts:
        gflops, gbs = facts["peak_gflops"], facts["memory_read_gbs"]
        head["peak"] = f"{gflops:.0f} GFLOP/s, {gbs:.1f} GB/s from memory, measured"
    elif "launches_of_a_call" in facts:
        head["launches"] = f"{facts['launches_of_a_call']}, spills: {facts['launches_that_spill']}"
    return head


def _rows(model: ModelFacts, layers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each convolution; last those without a decision."""
    rows = [
        {
            **row,
            "shape": shape_text(row["workload"]),
            "algorithm": algorithm_text(decision.chosen),
            "reason": short_reason(decision),
        }
        for row, decision in zip(layers, model.decisions, strict=True)
    ]
    for call in model.calls:
        if call.note:
            row = {"layer": call.layer, "shape": shape_text(call.workload), "reason": call.note}
            rows.append({**row, "algorithm": _NOTED.get(call.operator, "in FP32")})
    for left in model.unscheduled:
        row = {"layer": left.layer, "shape": left.operator, "reason": left.reason}
        rows.append({**row, "algorithm": "plain loops"})
    return rows
