"""Further tables of a bench: our kernels, their stages, threads, and comparisons of rows."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

from tvmconv.core.errors import InputError
from tvmconv.lab.bench.gpu.predictions import prediction_table
from tvmconv.lab.bench.result import OWN, PEAK, BenchResult, CaseResult, Entry
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

_MIB = 2.0**-20
# baselines of the papers: the whole im2col buffer, or else its panels, and direct
_BASELINES = (("untuned",), ("im2col:mc=0", "im2col"), ("direct", "direct:variant=blocked"))

_ENTRY = (*plain("case", "threads"), IMPLEMENTATION)
_KERNELS = (
    *_ENTRY,
    Column("schedule", "schedule"),
    Column("gflops", "effective GFLOP/s", ".1f"),
    Column("real_gflops", "real", ".1f"),
    Column("real_peak_share", "real % of peak", ".1f", 100),
    Column("workspace_bytes", "workspace MiB", ".2f", _MIB),
    Column("packed_weight_bytes", "weights MiB", ".2f", _MIB),
    Column("pack_seconds", "packing ms", ".2f", 1e3),
)
_STAGES = (
    *_ENTRY,
    Column("stage", "stage"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("share", "% of call", ".1f", 100),
)
_COLD = (
    *_ENTRY,
    Column("seconds", "warm ms", ".3f", 1e3),
    Column("cold_weights_seconds", "cold weights ms", ".3f", 1e3),
    Column("cold_seconds", "all cold ms", ".3f", 1e3),
    Column("cold_ratio", "all cold / warm", ".2f"),
    Column("times_tvmconv", "x tvmconv, all cold", ".2f"),
)
_LOADING = (
    *_ENTRY,
    Column("file_bytes", "file MiB", ".1f", _MIB),
    Column("load_seconds", "load ms", ".1f", 1e3),
    Column("first_call_seconds", "first call ms", ".1f", 1e3),
    Column("load_bytes", "peak MiB", ".1f", _MIB),
)
_SCALING = (
    Column("case", "case"),
    IMPLEMENTATION,
    Column("threads", "threads"),
    Column("seconds", "ms min", ".3f", 1e3),
    Column("speedup", "speedup", ".2f"),
    Column("efficiency", "efficiency %", ".0f", 100),
)
_AGAINST = (
    Column("baseline", "baseline"),
    IMPLEMENTATION,
    *plain("threads", "cases"),
    Column("won", "faster"),
    Column("lost", "slower"),
    Column("min", "minimum ratio", ".3f"),
    Column("mean", "mean ratio", ".3f"),
    Column("geomean", "geometric mean", ".3f"),
    Column("max", "maximum ratio", ".3f"),
)


def further_tables(result: BenchResult, against: str = "") -> list[Table]:
    """The tables for which the run has figures.

    ``against`` names the rows to compare with, separated by commas; ``tvmconv`` may be left out.
    Raises :class:`InputError` if a name is unknown.
    """
    baselines = _baselines(result, against)
    tables = [
        Table("kernels", "Our kernels", _KERNELS, _kernels(result)),
        Table("stages", "Stages", _STAGES, _stages(result)),
        Table("cold", "Weights and activations from memory", _COLD, _cold(result)),
        Table("loading", "Loading in a fresh process", _LOADING, _loading(result)),
        Table("scaling", "Threads", _SCALING, _scaling(result)),
        prediction_table(result),
        Table(
            "against",
            "Times of a baseline over those of a row: above 1 the row is faster",
            _AGAINST,
            [row for label in baselines for row in _against(result, label)],
        ),
        Table(
            "against_cold_weights",
            "The same with weights in memory, as in a network",
            _AGAINST,
            [row for label in baselines for row in _against(result, label, "cold_weights_best")],
        ),
    ]
    return [table for table in tables if table.rows]


def _good(case: CaseResult) -> list[Entry]:
    """Entries with correct outputs and times; without the peak."""
    return [e for e in case.entries if e.status == "ok" and e.best and e.label != PEAK]


def _head(case: CaseResult, entry: Entry) -> dict[str, Any]:
    return {"case": case.name, "threads": case.threads, "contender": entry.label}


def _kernels(result: BenchResult) -> list[dict[str, Any]]:
    rows = []
    for case in result.results:
        peak = case.peak_gflops
        for entry in (each for each in _good(case) if "multiplies" in each.facts):
            real, effective, share = entry.real_gflops, entry.gflops, entry.share_of(peak)
            rows.append(
                {
                    **_head(case, entry),
                    "problem": case.problem,
                    "schedule": entry.info,
                    "gflops": effective,
                    "real_gflops": real,
                    "peak_share": share,
                    "real_peak_share": real / peak if real and peak and share else None,
                    "error": entry.error,
                    **entry.facts,
                }
            )
    return rows


def _stages(result: BenchResult) -> list[dict[str, Any]]:
    rows = []
    for case in result.results:
        for entry in _good(case):
            seconds = entry.stage_seconds
            total = sum(seconds.values()) or 1.0
            rows += [
                {
                    **_head(case, entry),
                    "stage": stage,
                    "seconds": value,
                    "share": value / total,
                }
                for stage, value in seconds.items()
            ]
    return rows


def _cold(result: BenchResult) -> list[dict[str, Any]]:
    rows = []
    for case in result.results:
        entries = [entry for entry in _good(case) if entry.cold_best]
        own = [entry.cold_best for entry in entries if entry.label.startswith(OWN)]
        least = min((seconds for seconds in own if seconds), default=None)
        for entry in entries:
            cold, warm = entry.cold_best or 0.0, entry.best or 1.0
            rows.append(
                {
                    **_head(case, entry),
                    "seconds": warm,
                    "cold_weights_seconds": entry.cold_weights_best,
                    "cold_seconds": cold,
                    "cold_ratio": cold / warm,
                    "times_tvmconv": cold / least if least else None,
                }
            )
    return rows


def _loading(result: BenchResult) -> list[dict[str, Any]]:
    names = ("file_bytes", "load_seconds", "first_call_seconds", "load_bytes")
    return [
        _head(case, entry) | {name: entry.facts[name] for name in names}
        for case in result.results
        for entry in _good(case)
        if "load_seconds" in entry.facts
    ]


def _scaling(result: BenchResult) -> list[dict[str, Any]]:
    """Rows of cases that were measured with several numbers of threads."""
    groups: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for case in result.results:
        for entry in _good(case):
            key = (case.name, case.problem, entry.label)
            groups.setdefault(key, []).append((case.threads, entry.best or 0.0))
    rows = []
    for (name, _, label), found in groups.items():
        least, base = min(found)
        if len(found) < 2:
            continue
        for threads, seconds in sorted(found):
            rows.append(
                {
                    "case": name,
                    "contender": label,
                    "threads": threads,
                    "seconds": seconds,
                    "speedup": base / seconds,
                    "efficiency": base / seconds * least / threads,
                }
            )
    return rows


def _baselines(result: BenchResult, against: str) -> list[str]:
    labels = dict.fromkeys(e.label for case in result.results for e in _good(case))
    if not against:
        if len(result.results) < 2:
            return []
        choices = [[f"{OWN} {name}" for name in names] for names in _BASELINES]
        firsts = [next((name for name in names if name in labels), None) for names in choices]
        return [name for name in firsts if name]
    found: list[str] = []
    for name in (word.strip() for word in against.split(",")):
        label = next((each for each in (name, f"{OWN} {name}") if each in labels), None)
        if label is None:
            raise InputError(f"unknown row --relative-to {name!r}; rows are {', '.join(labels)}")
        found.append(label)
    return found


def _against(result: BenchResult, baseline: str, figure: str = "best") -> list[dict[str, Any]]:
    """Every row compared with one row by a figure, over the cases where both have it."""
    ratios: dict[tuple[str, int], list[float]] = {}
    for case in result.results:
        found = {entry.label: getattr(entry, figure) for entry in _good(case)}
        base = found.pop(baseline, None)
        for label, seconds in found.items():
            if base and seconds:
                ratios.setdefault((label, case.threads), []).append(base / seconds)
    return [
        {
            "baseline": baseline,
            "contender": label,
            "threads": threads,
            "cases": len(values),
            "won": sum(value > 1 for value in values),
            "lost": sum(value < 1 for value in values),
            "min": min(values),
            "mean": sum(values) / len(values),
            "geomean": geomean(values),
            "max": max(values),
        }
        for (label, threads), values in ratios.items()
    ]


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean of positive numbers; None for none."""
    found = list(values)
    return geometric_mean(found) if found else None
