"""Which algorithm every layer got, why, and what was considered beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmconv.decision import Candidate, Decision
from tvmconv.report.document import Column, Report, Table
from tvmconv.report.summary import bytes_text, memory_table, model_facts

if TYPE_CHECKING:
    from tvmconv.runtime.module import CompiledModel

_CHOSEN = (
    Column("layer", "layer"),
    Column("workload", "problem"),
    Column("algorithm", "algorithm"),
    Column("config", "schedule"),
    Column("source", "from"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("workspace_bytes", "workspace B"),
    Column("packed_weight", "weights"),
    Column("error_estimate", "error est.", ".0e"),
    Column("reason", "reason"),
)
_REJECTED = (
    Column("layer", "layer"),
    Column("algorithm", "algorithm"),
    Column("config", "schedule"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("rejected", "why not"),
)


def explain_report(model: CompiledModel) -> Report:
    """The report of every decision; nothing is recomputed for it.

    Parameters
    ----------
    model
        Built or loaded.

    Returns
    -------
    Report
        Tables ``layers``, ``rejected`` and ``memory``; ``str()`` of it is the terminal view.
    """
    decisions = model.decisions
    rejected = [
        {"layer": d.layer, **_candidate(c), "rejected": c.rejected}
        for d in decisions
        for c in d.rejected
    ]
    tables = [Table("layers", "Decisions", _CHOSEN, [_decision(d) for d in decisions])]
    if rejected:
        tables.append(Table("rejected", "Considered and not taken", _REJECTED, rejected))
    return Report(
        kind="explain",
        title=f"{model.name}: {len(decisions)} convolutions",
        facts={**model_facts(model), "convolutions": len(decisions)},
        tables=(*tables, memory_table(model)),
        data={"calls": [call.to_json() for call in model.calls]},
    )


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "layer": decision.layer,
        "workload": str(decision.workload),
        "kernel": decision.kernel,
        **_candidate(decision.chosen),
        "reason": decision.reason,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    # an algorithm that cannot compute the layer was never predicted
    predicted = candidate.seconds if 0 < candidate.seconds < float("inf") else None
    return {
        "algorithm": candidate.algorithm,
        "config": str(candidate.config),
        "knobs": candidate.config.to_json(),
        "source": candidate.source,
        "predicted_seconds": predicted,
        "workspace_bytes": candidate.workspace_bytes,
        "packed_weight_bytes": candidate.packed_weight_bytes,
        "packed_weight": bytes_text(candidate.packed_weight_bytes),
        "error_estimate": candidate.error,
    }
