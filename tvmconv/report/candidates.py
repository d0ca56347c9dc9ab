"""Every candidate of every layer, with its verdict, and the speed of each memory budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from tvmconv.core.decision import Candidate, Decision
from tvmconv.report.clock import Clock
from tvmconv.report.table import Column, Table, bytes_text, plain

_CANDIDATES = (
    *plain("layers", "algorithm"),
    Column("config", "schedule"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("workspace", "workspace"),
    Column("packed_weight", "weights"),
    Column("error_estimate", "error est.", ".1e"),
    Column("verdict", "verdict"),
)
_ALIKE = attrgetter("workload", "chosen", "reason", "rejected")

# causes that another memory budget may change
_OPEN = ("", "slower", "memory")


def candidates_table(decisions: Sequence[Decision], clock: Clock) -> Table:
    """The candidates of every layer; layers that differ only in their names share rows."""
    rows = [row for group in alike(decisions) for row in _considered(group, clock)]
    return Table("candidates", "All candidates, by layer", _CANDIDATES, rows, brief=())


def alike(decisions: Sequence[Decision]) -> list[list[Decision]]:
    """Groups of decisions that differ only in the layer."""
    groups: list[list[Decision]] = []
    for decision in decisions:
        for group in groups:
            if _ALIKE(group[0]) == _ALIKE(decision):
                group.append(decision)
                break
        else:
            groups.append([decision])
    return groups


def _considered(group: list[Decision], clock: Clock) -> list[dict[str, Any]]:
    """The chosen candidate, then the others by cost, and unsupported candidates last."""
    decision = group[0]
    others = sorted(decision.rejected, key=lambda o: (o.cause == "unsupported", o.cycles))
    layers = ", ".join(d.layer for d in group)
    names = {"layers": layers, "count": len(group), "workload": str(decision.workload)}
    taken = {**names, **candidate_row(decision.chosen, clock), "cause": "", "verdict": "chosen"}
    return [
        taken,
        *(
            {**names, **candidate_row(o, clock), "cause": o.cause, "verdict": o.rejected}
            for o in others
        ),
    ]


def candidate_row(candidate: Candidate, clock: Clock) -> dict[str, Any]:
    """A candidate's names, and its figures with their texts if it supports the layer."""
    plain = {
        "algorithm": candidate.algorithm,
        "config": str(candidate.config),
        "knobs": candidate.config.to_json(),
        "source": candidate.source,
    }
    if candidate.cause == "unsupported":
        return plain
    return {
        **plain,
        "predicted_cycles": candidate.cycles,
        "predicted_seconds": clock.seconds(candidate.cycles),
        "parts": dict(candidate.parts),
        "workspace_bytes": candidate.workspace_bytes,
        "workspace": bytes_text(candidate.workspace_bytes),
        "packed_weight_bytes": candidate.packed_weight_bytes,
        "packed_weight": bytes_text(candidate.packed_weight_bytes),
        "error_estimate": candidate.error,
    }


def memory_frontier(candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The fastest combination under every memory budget that makes a difference.

    From rows of the table ``candidates`` it makes rows with the peak ``workspace_bytes``, the
    ``predicted_seconds`` of all convolutions and their ``packed_weight_bytes``. Their workspace
    grows, and their time falls.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in candidates:
        if row["cause"] in _OPEN:
            groups.setdefault((row["layers"], row["workload"]), []).append(row)
    budgets = sorted({row["workspace_bytes"] for group in groups.values() for row in group})
    frontier: list[dict[str, Any]] = []
    for budget in budgets:
        taken = []
        for group in groups.values():
            fitting = [row for row in group if row["workspace_bytes"] <= budget]
            if not fitting:
                break
            best = min(fitting, key=lambda row: row["predicted_seconds"])
            taken.append((best, group[0]["count"]))
        if len(taken) < len(groups):
            continue
        seconds = sum(row["predicted_seconds"] * count for row, count in taken)
        if frontier and seconds >= frontier[-1]["predicted_seconds"]:
            continue
        frontier.append(
            {
                "workspace_bytes": max((row["workspace_bytes"] for row, _ in taken), default=0),
                "predicted_seconds": seconds,
                "packed_weight_bytes": sum(
                    row["packed_weight_bytes"] * count for row, count in taken
                ),
            }
        )
    return frontier
