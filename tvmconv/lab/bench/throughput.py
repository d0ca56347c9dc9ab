"""The table of ``bench run --streams``: calls at the same time, their rate and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tvmconv.lab.bench.result import OWN, CaseResult, Entry
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

Saved = Mapping[tuple[str, int, int, str], Entry]

_COLUMNS = (
    *plain("case", "streams", "threads"),
    IMPLEMENTATION,
    Column("images_per_second", "images/s", ".1f"),
    Column("median_images_per_second", "median", ".1f"),
    Column("p50_seconds", "ms p50", ".3f", 1e3),
    Column("p99_seconds", "ms p99", ".3f", 1e3),
    Column("error", "max error", ".1e"),
    Column("times_tvmconv", "x tvmconv", ".2f"),
    Column("status", "status"),
)
_SAVED = (
    Column("saved_images_per_second", "saved images/s", ".1f"),
    Column("speedup_over_saved", "x saved", ".3f"),
)


def throughput_table(cases: Sequence[CaseResult], saved: Saved) -> Table:
    """A row for each implementation and number of streams, with the rate of the best round.

    ``threads`` is the number for one stream. ``saved`` are entries of an earlier run, whose rates
    the table then has too.
    """
    rows = [_row(case, entry, saved) for case in cases for entry in case.entries]
    title = "Throughput, each stream with its own calls"
    return Table("throughput", title, _COLUMNS + (_SAVED if saved else ()), rows)


def _row(case: CaseResult, entry: Entry, saved: Saved) -> dict[str, Any]:
    own = max((e.rate or 0.0 for e in case.entries if e.label.startswith(OWN)), default=0.0)
    timing, best = entry.timing, entry.rate
    row: dict[str, Any] = {
        "case": case.name,
        "streams": case.streams,
        "threads": case.threads,
        "contender": entry.label,
        "version": entry.version,
        "status": entry.status,
        "error": entry.error,
        "images_per_second": best and best * case.images,
        "median_images_per_second": median(entry.rates) * case.images if entry.rates else None,
        "p50_seconds": timing.median if timing else None,
        "p99_seconds": timing.percentile(99) if timing else None,
        "times_tvmconv": own / best if own and best else None,
    }
    earlier = saved.get((case.name, case.threads, case.streams, entry.label))
    if earlier is not None and earlier.rate and best:
        row["saved_images_per_second"] = earlier.rate * case.images
        row["speedup_over_saved"] = best / earlier.rate
    return row
