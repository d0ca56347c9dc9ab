"""Sets of records: the best of each problem, merging, pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvmconv.core.errors import TvmconvError
from tvmconv.records.record import Record


def best(
    records: Iterable[Record], group: Callable[[Record], object] = lambda record: record.key
) -> tuple[Record, ...]:
    """The best record of each group, in order of first appearance.

    Parameters
    ----------
    records
        What competes.
    group
        By default workload, machine and algorithm.

    Notes
    -----
    Times of different runs are compared through the default measured beside each: a record's
    speed-up is free of the machine's drift. Equal defaults are required for that; otherwise the
    shorter time wins.
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


def prune(records: Iterable[Record]) -> tuple[tuple[Record, ...], tuple[tuple[Record, str], ...]]:
    """The best records that the schedules of this version still accept.

    Returns
    -------
    tuple
        What is kept, and what is dropped with the reason of each.
    """
    from tvmconv.records.space import error_class, refusal

    records = tuple(records)
    usable, dropped = [], []
    for record in records:
        if reason := refusal(record):
            dropped.append((record, reason))
        else:
            usable.append(record)
    kept = best(usable, error_class)
    chosen = set(map(id, kept))
    dropped += [(r, "another record is better") for r in usable if id(r) not in chosen]
    return kept, tuple(dropped)


def for_workloads(records: Iterable[Record], text: str) -> tuple[Record, ...]:
    """The records whose workload, machine name or algorithm contains a text.

    Raises
    ------
    TvmconvError
        If there is none.
    """
    taken = tuple(
        r
        for r in records
        if text in str(r.workload) or text in (str(r.machine.get("name")), r.algorithm)
    )
    if not taken:
        raise TvmconvError(f"no record matches {text!r}; give part of a workload, or an algorithm")
    return taken


def _better(record: Record, other: Record) -> bool:
    same = (record.default_algorithm, record.default_config) == (
        other.default_algorithm,
        other.default_config,
    )
    if same:
        return record.speedup > other.speedup
    return record.seconds < other.seconds
