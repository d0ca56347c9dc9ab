"""Reports of the tuner: the results of a run, and the contents of logs."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.records.logfile import MOST_SHOWN, Skipped
from tvmconv.records.record import Record
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, plain
from tvmconv.tuning.session import Task
from tvmconv.tuning.settings import Outcome

_OUTCOMES = (
    *plain("layer", "workload", "status"),
    Column("algorithm", "best"),
    Column("speedup", "speed-up", ".3f"),
    Column("lower_bound", ">= (95 %)", ".3f"),
    Column("milliseconds", "ms", ".4f"),
    *plain("outliers", "trials", "remembered", "failed"),
    Column("seconds", "s", ".1f"),
)
_ESTIMATED = (
    *_OUTCOMES[:4],
    Column("speedup", "est. speed-up", ".3f"),
    Column("milliseconds", "est. ms", ".4f"),
    *_OUTCOMES[8:],
)
_BASELINES = (
    Column("baseline", "best baseline"),
    Column("baseline_milliseconds", "ms", ".4f"),
    Column("over_baseline", "x baseline", ".3f"),
)
_SPACES = (
    Column("layer", "layer"),
    Column("default_milliseconds", "default ms", ".4f"),
    Column("knobs_milliseconds", "knobs ms", ".4f"),
    Column("auto_milliseconds", "auto ms", ".4f"),
    Column("knobs", "knobs"),
    Column("ratio", "x auto", ".3f"),
    Column("lower_bound", ">= (95 %)", ".3f"),
    Column("trials", "trials"),
    Column("auto_trials", "auto trials"),
    Column("failed", "failed"),
)
_RECORDS = (
    *plain("workload", "isa", "threads", "algorithm", "config"),
    Column("milliseconds", "ms", ".4f"),
    Column("speedup", "speed-up", ".3f"),
    Column("outliers", "outliers"),
    Column("error", "error", ".1e"),
    *plain("date", "device"),
)
_DROPPED = plain("workload", "algorithm", "why")
_CHECKED = (
    *plain("workload", "algorithm", "status"),
    Column("logged", "logged", ".3f"),
    Column("speedup", "now", ".3f"),
    Column("lower_bound", ">= (95 %)", ".3f"),
    Column("error", "error", ".1e"),
    Column("why", "why"),
)

# layers that a note names
_NAMED = 5


def tune_report(
    tasks: Sequence[Task],
    outcomes: Sequence[Outcome],
    log: Path,
    seconds: float,
    missing: Mapping[str, str] | None = None,
    estimated: Mapping[str, str] | None = None,
    left: Sequence[Task] = (),
) -> Report:
    """The result of a tuning run for each workload.

    ``seconds`` is the total time. ``missing`` has the reason for each baseline that was not
    measured. ``estimated`` has clock and method of estimates; None where times were measured.
    ``left`` are tasks that the given algorithms do not compute.
    """
    names = {task.workload: task.name for task in tasks}
    rows = [
        {
            "layer": names.get(outcome.workload, ""),
            "workload": str(outcome.workload),
            "status": outcome.status,
            "algorithm": outcome.best,
            "default": outcome.default,
            "speedup": outcome.speedup if math.isfinite(outcome.best_seconds) else None,
            "lower_bound": outcome.lower_bound if math.isfinite(outcome.best_seconds) else None,
            "milliseconds": _milliseconds(outcome.best_seconds),
            "outliers": f"{outcome.outliers}/{outcome.samples}" if outcome.samples else None,
            "baseline": outcome.baseline,
            "baseline_milliseconds": _milliseconds(outcome.baseline_seconds),
            "over_baseline": outcome.over_baseline,
            "trials": outcome.trials,
            "remembered": outcome.remembered,
            "failed": sum(outcome.failures.values()),
            "failures": dict(outcome.failures),
            "seconds": outcome.seconds,
        }
        for outcome in outcomes
    ]
    measured = sum(o.fresh for o in outcomes)
    failures: Counter[str] = Counter()
    for outcome in outcomes:
        failures.update(outcome.failures)
    gains = [o.speedup for o in outcomes if o.status == "recorded"]
    facts: dict[str, Any] = {
        "log": str(log),
        "workloads": len(tasks),
        "records": len(gains),
        "trials": measured,
        "trials_per_minute": 60 * measured / seconds if seconds > 0 else 0.0,
        "failures": dict(failures),
        "seconds": seconds,
    }
    facts |= estimated or {}
    if gains:
        facts["geometric_mean_of_records"] = statistics.geometric_mean(gains)
    title = f"{len(gains)} of {len(outcomes)} workloads improved"
    title += ", as estimated" * (estimated is not None)
    if before := sum(o.status == "done before" for o in outcomes):
        title += f", {before} done before"
    ratios = [o.over_baseline for o in outcomes if o.over_baseline is not None]
    columns: tuple[Column, ...] = _OUTCOMES if estimated is None else _ESTIMATED
    if ratios:
        columns = (*_OUTCOMES[:7], *_BASELINES, *_OUTCOMES[7:])
        facts["geometric_mean_over_best_baseline"] = statistics.geometric_mean(ratios)
    notes = tuple(f"{baseline} not measured: {why}" for baseline, why in (missing or {}).items())
    if missed := len(tasks) - len(outcomes):
        notes += (f"not finished: {missed} of {len(tasks)} workloads",)
    if left:
        shown = ", ".join(task.name for task in left[:_NAMED])
        more = f" and {len(left) - _NAMED} more" * (len(left) > _NAMED)
        notes += (f"not tuned, as the given algorithms do not compute them: {shown}{more}",)
    if spilled := sum(outcome.spilled for outcome in outcomes):
        notes += (f"not timed, as nvcc spilled their registers: {spilled} candidates",)
    tables = [Table("workloads", "Workloads", columns, rows)]
    if spaces := _spaces(outcomes, names):
        if over := [row["ratio"] for row in spaces if "ratio" in row]:
            facts["geometric_mean_over_auto"] = statistics.geometric_mean(over)
        tables.append(Table("spaces", "Knobs compared with auto, interleaved", _SPACES, spaces))
    return Report("tune", title, facts, tuple(tables), notes)


def _spaces(
    outcomes: Sequence[Outcome], names: Mapping[Conv2dWorkload, str]
) -> list[dict[str, Any]]:
    rows = []
    for outcome in outcomes:
        if (found := outcome.comparison) is None:
            continue
        times = {
            f"{name}_milliseconds": _milliseconds(getattr(found, f"{name}_seconds") or math.inf)
            for name in ("default", "knobs", "auto")
        }
        ratio = {} if found.failed else {"ratio": found.ratio, "lower_bound": found.lower_bound}
        rows.append(
            {
                "layer": names.get(outcome.workload, ""),
                "workload": str(outcome.workload),
                **times,
                "default": found.default,
                "knobs": found.knobs,
                "auto": found.auto,
                **ratio,
                "trials": found.knobs_trials,
                "auto_trials": found.auto_trials,
                "knobs_progress": _progress(found.knobs_progress),
                "auto_progress": _progress(found.auto_progress),
                "failed": found.failed,
            }
        )
    return rows


def _progress(found: Sequence[Sequence[float]]) -> list[list[float]]:
    """Trials that were faster than all before, with their milliseconds."""
    return [[number, seconds * 1e3] for number, seconds in found]


def records_report(
    title: str, records: Sequence[Record], skipped: Sequence[Skipped] = ()
) -> Report:
    """Records as a table."""
    rows = [_row(record) for record in records]
    facts = {"records": len(records), "skipped_lines": len(skipped)}
    table = Table("records", "Records", _RECORDS, rows)
    notes = [str(line) for line in skipped[:MOST_SHOWN]]
    if len(skipped) > MOST_SHOWN:
        notes.append(f"{len(skipped) - MOST_SHOWN} more lines skipped")
    return Report("log", title, facts, (table,), tuple(notes))


def prune_report(kept: int, dropped: Sequence[tuple[Record, str]], path: Path) -> Report:
    """The records that a prune dropped."""
    rows = [
        {"workload": str(r.workload), "algorithm": r.algorithm, "why": why} for r, why in dropped
    ]
    title = f"{path}: {kept} records kept, {len(dropped)} dropped"
    tables = (Table("dropped_records", "Dropped", _DROPPED, rows),) if rows else ()
    return Report("log", title, {"kept": kept, "dropped": len(dropped)}, tables)


def verify_report(rows: Sequence[dict[str, Any]], path: Path) -> Report:
    """The results of a log's records on this machine."""
    counts = Counter(str(row["status"]) for row in rows)
    title = f"{path}: " + (", ".join(f"{n} {s}" for s, n in counts.items()) or "no record")
    tables = (Table("records", "Records", _CHECKED, rows),)
    return Report("log", title, {"counts": dict(counts)}, tables)


def _milliseconds(seconds: float) -> float | None:
    return seconds * 1e3 if math.isfinite(seconds) else None


def _row(record: Record) -> dict[str, Any]:
    return {
        "workload": str(record.workload),
        "isa": record.machine["isa"],
        "threads": record.machine["cores"],
        "algorithm": record.algorithm,
        "config": str(record.config),
        "milliseconds": record.seconds * 1e3,
        "speedup": record.speedup,
        "outliers": f"{record.outliers}/{len(record.samples)}",
        "error": record.error,
        "date": record.date[:10],
        "device": str(record.device.get("cpu", ""))[:40],
        "record": record.to_json(),
    }
