"""Checks a log on this machine: every record's output and its gain, measured again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tvmconv.machines.record import Machine
from tvmconv.records.record import Record, machine_facts, runs_alike
from tvmconv.records.space import refusal, validate
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.measure import Final, Measurer
from tvmconv.tuning.results import MeasuredChoice, gain, is_better, verification


def verify(
    records: Iterable[Record],
    machine: Machine,
    threads: int | None,
    measurer: Measurer,
    provenance: Callable[[], dict[str, Any]],
    final: Final,
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[list[dict[str, Any]], list[Record]]:
    """Measure records again, interleaved with this version's untuned choice.

    Records for another instruction set, for more threads than this machine has, or for another
    number than ``threads``, are listed as ``foreign``. Every record is measured with its own number
    of threads. ``tell`` is called with each row. A row's ``status`` is ``confirmed``, ``no gain``,
    ``refused``, ``foreign`` or a failure. Returns the rows, and new records of this machine for the
    confirmed ones. ``provenance`` returns their versions and date.
    """
    rows, confirmed = [], []
    for record in records:
        cores = threads or min(max(record.machine["cores"], 1), machine.cores)
        row, fresh = _check(record, machine.with_cores(cores), measurer, provenance, final)
        rows.append(row)
        if fresh is not None:
            confirmed.append(fresh)
        if tell is not None:
            tell(row)
    return rows, confirmed


def _check(
    record: Record,
    machine: Machine,
    measurer: Measurer,
    provenance: Callable[[], dict[str, Any]],
    final: Final,
) -> tuple[dict[str, Any], Record | None]:
    row: dict[str, Any] = {
        "workload": str(record.workload),
        "algorithm": record.algorithm,
        "logged": record.speedup,
    }
    if not runs_alike(record.machine, machine):
        of = f"for {record.machine['isa']} and {record.machine['cores']} thread(s)"
        why = f"{of}, this is {machine.isa} and {machine.cores}"
        return {**row, "status": "foreign", "why": why}, None
    facts = machine_facts(machine)
    if reason := refusal(record) or refusal(replace(record, machine=facts)):
        return {**row, "status": "refused", "why": reason}, None
    # by the machine model of this build, which the log may name otherwise
    default = untuned_choice(record.workload, machine)
    choice = (
        record.algorithm,
        validate(record.workload, machine, record.algorithm, record.config),
    )
    if choice == default:
        return {**row, "status": "is the default now"}, None
    base, tuned = measurer.interleaved(record.workload, machine, [default, choice], final)
    if not isinstance(tuned, MeasuredChoice):
        return {**row, "status": tuned.kind, "why": tuned.reason}, None
    if not isinstance(base, MeasuredChoice):
        return {**row, "status": f"default {base.kind}", "why": base.reason}, None
    speedup, bound = gain(base.samples, tuned.samples)
    row |= {"speedup": speedup, "lower_bound": bound, "error": tuned.error}
    if not is_better(base.samples, tuned.samples):
        return {**row, "status": "no gain"}, None
    fresh = replace(
        record,
        machine=facts,
        samples=tuned.samples,
        default_algorithm=base.algorithm,
        default_config=base.config,
        default_samples=base.samples,
        verification=verification(record.workload, tuned),
        device=measurer.identity(),
        **provenance(),
    )
    return {**row, "status": "confirmed"}, fresh
