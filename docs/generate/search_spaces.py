"""The section of the benchmarks that compares the search spaces of ``tune --search both``."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

FILE = "search-spaces"
_TEXT = """
## Schedule parameters compared with MetaSchedule

The same limit of candidates for both search spaces of `tune --search both`, batch size 1. A search
ends sooner where its space has fewer candidates. "Default" is the kernel without tuning. All times
are in ms.

"Best after" is the fastest candidate so far, as each search measured it: schedule parameters with
weights in memory, MetaSchedule with weights in the caches. "Final" measures the winners of both
spaces interleaved, with weights in memory. Parameters that do not beat the default by more than
the noise are the default.
"""
_STEPS = (16, 64, 256)


def text(report: dict[str, Any], origin: str) -> str:
    """Return the section of a saved report, which ``origin`` names."""
    rows = [row for row in report["spaces"] if not row.get("failed")]
    most = max(row["trials"] for row in rows)
    steps = [step for step in _STEPS if step < most] + [most]
    heads = [f"best after {step}" for step in steps]
    lines = [
        _TEXT,
        f"| layer | space | {' | '.join(heads)} | final | default over final |",
        "|" + "---|" * (len(steps) + 4),
    ]
    for row in rows:
        for space, name in (("knobs", "parameters"), ("auto", "MetaSchedule")):
            final = row[f"{space}_milliseconds"]
            best = [_best(row[f"{space}_progress"], step) for step in steps]
            gain = f"{row['default_milliseconds'] / final:.2f}"
            layer = row["layer"] if space == "knobs" else ""
            lines.append(f"| {' | '.join([layer, name, *best, f'{final:.3g}', gain])} |")
    ratio = geometric_mean(row["ratio"] for row in rows)
    lines.append(f"\nMetaSchedule's final time over ours, geometric mean: {ratio:.2f}.\n")
    return "\n".join(lines) + f"\n*{origin}*\n\n"


def _best(progress: list[list[float]], trials: int) -> str:
    found = [milliseconds for number, milliseconds in progress if number <= trials]
    return f"{found[-1]:.3g}" if found else "-"
