"""Sets of records: the best of each problem, merging, pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvmconv.core.errors import TvmconvError
from tvmconv.records.record import Record


def best(
    records: Iterable[Record], group: Callable[[Record], object] = lambda record: record.key
) -> tuple[Record, ...]:
    """The best record of each group, in order of first appearance.

    By default, a group has one workload, machine and algorithm. Records with the same default are
    compared by their speed-up over it, which is free of the machine's drift. Otherwise the shorter
    time wins.
    """
    found: dict[object, Record] = {}
    for record in records:
        key = group(record)
        other = found.get(key)
        if other is None or _better(record, other):
            found[key] = record
    return tuple(found.values())


def merge(logs: Iterable[Sequence[Record]]) -> tuple[Record, ...]:
    """All records of several logs, each once, in order."""
    lines: dict[str, Record] = {}
    for log in logs:
        for record in log:
            lines.setdefault(record.to_line(), record)
    return tuple(lines.values())


def prune(
    records: Iterable[Record], min_speedup: float = 0.0
) -> tuple[tuple[Record, ...], tuple[tuple[Record, str], ...]]:
    """The best records that the schedules of this version still accept.

    The kept ones are ``min_speedup`` times as fast as the default of their run, or faster. Returns
    the kept records, and each dropped record with the reason.
    """
    from tvmconv.records.space import error_class, refusal

    records = tuple(records)
    usable, dropped = [], []
    for record in records:
        if reason := refusal(record):
            dropped.append((record, reason))
        elif record.speedup < min_speedup:
            dropped.append((record, f"its speed-up of {record.speedup:.3f} is too small"))
        else:
            usable.append(record)
    kept = best(usable, error_class)
    chosen = set(map(id, kept))
    dropped += [(r, "another record is better") for r in usable if id(r) not in chosen]
    return kept, tuple(dropped)


def for_workloads(records: Iterable[Record], text: str) -> tuple[Record, ...]:
    """The records whose workload, machine name or algorithm contains a text.

    Raises ``TvmconvError`` if there is none.
    """
    matching = tuple(
        r
        for r in records
        if text in str(r.workload) or text in (str(r.machine.get("name")), r.algorithm)
    )
    if not matching:
        raise TvmconvError(f"no record matches {text!r}. Give part of a workload, or an algorithm.")
    return matching


def _better(record: Record, other: Record) -> bool:
    defaults = [(r.default_algorithm, r.default_config) for r in (record, other)]
    if defaults[0] == defaults[1]:
        return record.speedup > other.speedup
    return record.seconds < other.seconds
