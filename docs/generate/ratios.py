"""Ratios of the times in a saved report."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from docs.generate.benchmarks import saved


def times(file: str, threads: int | None = None) -> dict[str, dict[str, float]]:
    """Return the minimum of each entry by layer; entries of ours without their prefix."""
    found: dict[str, dict[str, float]] = {}
    for row in saved(file)["measurements"]:
        if row.get("min_seconds") and threads in (None, row["threads"]):
            name = row["contender"].removeprefix("tvmconv ")
            found.setdefault(row["case"], {})[name] = row["min_seconds"]
    return found


def ratios(layers: Iterable[dict[str, float]], slower: str, faster: str) -> list[float]:
    """Return the time of one entry over another, for the layers that have both."""
    return [each[slower] / each[faster] for each in layers if {slower, faster} <= each.keys()]


def spread(values: list[float]) -> str:
    """Return minimum, maximum and mean as text."""
    return f"{min(values):.2f} to {max(values):.2f}, mean {mean(values):.2f}"


def spread_percent(values: list[float]) -> str:
    """Return minimum, maximum and mean of shares as text."""
    return f"{min(values):.0%} to {max(values):.0%}, mean {mean(values):.0%}"


def wins(values: list[float]) -> str:
    """Return how many ratios exceed 1."""
    return f"{sum(value > 1 for value in values)} of {len(values)}"
