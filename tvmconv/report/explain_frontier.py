"""Speed against workspace, from the candidates of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# causes that another memory budget may change
_OPEN = ("", "slower", "memory")


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
