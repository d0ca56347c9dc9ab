"""Tables of a bench: every implementation, and tvmconv compared with the best baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tvmconv.lab.bench.gpu.predictions import gpu_facts, prediction_note, translation_note
from tvmconv.lab.bench.memory_tables import memory_tables
from tvmconv.lab.bench.result import FLOAT32, PEAK, BenchResult, CaseResult, Entry
from tvmconv.lab.bench.tables import further_tables, geomean
from tvmconv.lab.bench.throughput import throughput_table
from tvmconv.report.document import Report, fact_text, fact_title
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

_MEASURED = (
    *plain("case", "threads"),
    IMPLEMENTATION,
    Column("min_seconds", "ms min", ".3f", 1e3),
    Column("median_seconds", "ms median", ".3f", 1e3),
    Column("p90_seconds", "ms p90", ".3f", 1e3),
    Column("p99_seconds", "ms p99", ".3f", 1e3),
    Column("calls_per_second", "calls/s", ".1f"),
    Column("spread", "IQR %", ".1f", 100),
    Column("gflops", "GFLOP/s", ".1f"),
    Column("peak_share", "% of peak", ".1f", 100),
    Column("error", "max error", ".1e"),
    Column("differing", "% differ", ".2f", 100),
    Column("times_tvmconv", "x tvmconv", ".2f"),
    Column("status", "status"),
)
_PRECISION = Column("precision", "precision")
_SAVED = (
    Column("saved_seconds", "saved ms", ".3f", 1e3),
    Column("speedup_over_saved", "x saved", ".3f"),
)
_SUMMARY = (
    *plain("case", "threads"),
    Column("gflop", "GFLOP", ".3f"),
    Column("contender", "tvmconv"),
    Column("min_seconds", "ms min", ".3f", 1e3),
    Column("peak_share", "% of peak", ".1f", 100),
    Column("best_peer", "best baseline"),
    Column("best_peer_seconds", "ms min", ".3f", 1e3),
    Column("speedup", "speedup", ".3f"),
)


# clock ticks of 10 ms make smaller shares of a short round meaningless
DISTURBED = 0.3


def bench_report(
    result: BenchResult, earlier: BenchResult | None = None, against: str = ""
) -> Report:
    """The report of a run.

    Rows of an ``earlier`` saved run add their time and the ratio earlier / now. ``against`` names
    rows to compare the others with, separated by commas. Raises :class:`InputError` if it names an
    unknown row.
    """
    results = earlier.results if earlier else ()
    saved = {
        (case.name, case.threads, case.streams, entry.label): entry
        for case in results
        for entry in case.entries
    }
    streamed = [case for case in result.results if case.streams]
    # the other tables and notes are about single calls
    single = replace(result, results=tuple(c for c in result.results if not c.streams))
    rows = [
        _row(case, entry, saved.get((case.name, case.threads, 0, entry.label)))
        for case in single.results
        for entry in case.entries
    ]
    summary = [row for case in single.results if (row := _summary_row(case))]
    machine = result.machine
    load = machine.get("load_average") or [0.0]
    facts = {
        "cpu": machine.get("cpu", "unknown"),
        "date": machine.get("date", ""),
        "versions": ", ".join(f"{k} {v}" for k, v in dict(machine.get("versions", {})).items()),
        "load_at_start": load[0],
        **gpu_facts(machine.get("gpu")),
    }
    columns = _MEASURED + (_SAVED if earlier else ())
    if any(row["precision"] not in (None, FLOAT32) for row in rows):
        columns = (*columns[:3], _PRECISION, *columns[3:])
    tables = [throughput_table(streamed, saved)] if streamed else []
    if rows or not streamed:
        tables.append(Table("measurements", "Measured", columns, rows))
    tables += further_tables(single, against)
    if result.settings.get("memory"):
        tables += memory_tables(single)
    if summary:
        asked = sorted({case.precision for case in result.results} - {FLOAT32})
        title = "tvmconv against the best baseline"
        title += f", {' and '.join(asked)} allowed" * bool(asked)
        tables.append(Table("summary", title, _SUMMARY, summary))
    return Report(
        kind="bench",
        title="Bench",
        facts={},
        tables=tuple(tables),
        notes=(
            *(f"{fact_title(name)}: {fact_text(name, value)}" for name, value in facts.items()),
            *_geomeans(single, summary),
            *prediction_note(single),
            *translation_note(single),
            *_disturbance(result),
            *_messages(result),
        ),
        data={
            key: value
            for key, value in result.to_json().items()
            if key in ("machine", "settings", "results")
        },
    )


def _row(case: CaseResult, entry: Entry, saved: Entry | None) -> dict[str, Any]:
    own = case.ranked(own=True)
    peak = case.peak_gflops
    row: dict[str, Any] = {
        "case": case.name,
        "problem": case.problem,
        "threads": case.threads,
        "contender": entry.label,
        "version": entry.version,
        "status": entry.status,
        "min_seconds": entry.best,
        "median_seconds": entry.median,
        **_distribution(entry),
        "spread": entry.spread,
        "gflops": entry.gflops,
        "precision": entry.precision if entry.status == "ok" else None,
        "peak_share": entry.share_of(peak),
        "error": entry.error,
        "differing": entry.facts.get("differing"),
        "times_tvmconv": None,
    }
    if own and entry.best and entry.label != PEAK:
        row["times_tvmconv"] = entry.best / (own[0].best or 1.0)
    if saved is not None and saved.best and entry.best and entry.label != PEAK:
        row["saved_seconds"] = saved.best
        row["speedup_over_saved"] = saved.best / entry.best
    return row


def _distribution(entry: Entry) -> dict[str, float | None]:
    """The distribution of the calls, by the names of ``run``."""
    timing = entry.timing
    if timing is None:
        return dict.fromkeys(("mean_seconds", "p90_seconds", "p99_seconds", "calls_per_second"))
    return {
        "mean_seconds": timing.mean,
        "p90_seconds": timing.percentile(90),
        "p99_seconds": timing.percentile(99),
        "calls_per_second": timing.rate,
    }


def _summary_row(case: CaseResult) -> dict[str, Any] | None:
    own, baselines = case.ranked(own=True), case.ranked(own=False)
    if not own or not own[0].best:
        return None
    best, peak = own[0], case.peak_gflops
    row: dict[str, Any] = {
        "case": case.name,
        "threads": case.threads,
        "count": case.count,
        "gflop": case.flops * 1e-9,
        "contender": best.label,
        "min_seconds": best.best,
        "peak_share": best.share_of(peak),
    }
    if baselines and baselines[0].best and best.best:
        row["best_peer"] = baselines[0].label
        row["best_peer_seconds"] = baselines[0].best
        row["speedup"] = baselines[0].best / best.best
    return row


def _geomeans(result: BenchResult, summary: list[dict[str, Any]]) -> list[str]:
    notes = []
    for threads in sorted({case.threads for case in result.results}):
        rows = [row for row in summary if row["threads"] == threads]
        if len(rows) < 2:
            continue
        speedup = geomean(row["speedup"] for row in rows if row.get("speedup"))
        share = geomean(row["peak_share"] for row in rows if row.get("peak_share"))
        parts = [f"{threads} thread(s), geometric mean over {len(rows)} cases:"]
        if share:
            parts.append(f"{share * 100:.1f} % of peak")
        if speedup:
            parts.append(f"{speedup:.3f} x the best baseline")
        parts += [f"{ratio:.3f} x {label}" for label, ratio in _against(result, threads).items()]
        notes.append(" ".join(parts[:1]) + " " + ", ".join(parts[1:]))
    return notes


def _against(result: BenchResult, threads: int) -> Mapping[str, float]:
    """Geometric mean of each baseline's time over tvmconv's, where both were measured."""
    ratios: dict[str, list[float]] = {}
    for case in result.results:
        own = case.ranked(own=True)
        if case.threads != threads or not own or not own[0].best:
            continue
        for baseline in case.ranked(own=False):
            ratios.setdefault(baseline.label, []).append((baseline.best or 1.0) / own[0].best)
    return {label: mean for label, values in ratios.items() if (mean := geomean(values))}


def _disturbance(result: BenchResult) -> list[str]:
    """A warning where other programs ran during the measurements."""
    shares = [s for case in result.results for entry in case.entries for s in entry.foreign]
    disturbed = [share for share in shares if share > DISTURBED]
    if not disturbed:
        return []
    return [
        f"other programs used up to {max(disturbed):.1f} CPUs in {len(disturbed)} of "
        f"{len(shares)} rounds; trust the minimum, or repeat on a quiet machine"
    ]


def _messages(result: BenchResult) -> list[str]:
    """Each reason why something was not measured, once, with the number of cases."""
    counts: dict[str, int] = {}
    for case in result.results:
        if case.skipped:
            counts[f"{case.name} {case.skipped}"] = 1
        for entry in case.entries:
            if entry.message:
                text = f"{entry.label} {entry.status}: {entry.message}"
                counts[text] = counts.get(text, 0) + 1
    return [text if count == 1 else f"{text} ({count} cases)" for text, count in counts.items()]
