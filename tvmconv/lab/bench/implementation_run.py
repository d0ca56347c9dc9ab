"""One contender of a bench during a case: its turns, with all that is timed in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvmconv.lab.bench.result import PEAK, Entry
from tvmconv.lab.bench.worker_process import Implementation, WorkerError, WorkerProcess
from tvmconv.measuring.host import busy_seconds

HELLO_SECONDS = 120.0
_SLOW_CALL = 1.0


@dataclass(frozen=True)
class Extras:
    """What is measured beside the time of warm calls.

    Parameters
    ----------
    stages
        Stages of our kernels.
    cold_bytes
        Calls after everything was evicted from caches of this size; 0 for none.
    memory
        By how much a process grows in its first call; takes a process of its own for each
        contender and case.
    load
        Of models, how long loading takes in a fresh process and what memory loading and a first
        call take there.
    least
        Samples of one turn at least; of calls above a second, one.
    """

    stages: bool = False
    cold_bytes: int = 0
    memory: bool = False
    load: bool = False
    least: int = 2


@dataclass
class ImplementationRun:
    """A contender, its process, and what preparing it told."""

    implementation: Implementation
    process: WorkerProcess
    first: float = 0.0
    stages: Sequence[str] = ()
    warms: bool = False
    colds: bool = True

    @property
    def label(self) -> str:
        """The contender's name."""
        return self.implementation.label

    @property
    def named(self) -> bool:
        """Whether the user asked for this very form of an algorithm."""
        variant = dict(self.implementation.options).get("variant")
        return bool(variant and variant["named"])

    def turn(self, entry: Entry, seconds: float, extras: Extras) -> Entry:
        """Time the contender for one round."""
        try:
            entry = self._warm(entry, seconds, extras.least)
            if extras.cold_bytes and self.colds and entry.label != PEAK:
                entry = self._cold(entry, seconds, extras)
        except WorkerError as error:
            return replace(entry, status="failed", message=str(error))
        return entry

    def _warm(self, entry: Entry, seconds: float, least: int) -> Entry:
        busy = busy_seconds()
        answer = self._time(seconds, least)
        others = busy_seconds() - busy - answer["cpu_seconds"]
        foreign = round(max(others, 0.0) / max(answer["wall_seconds"], 1e-3), 2)
        stages = dict(entry.stages)
        for stage in self.stages:
            last = stage == self.stages[-1]
            found = answer if last else self._time(seconds, least, stage=stage)
            stages[stage] = [*stages.get(stage, ()), min(found["samples"])]
        return replace(
            entry,
            rounds=[*entry.rounds, answer["samples"]],
            foreign=[*entry.foreign, foreign],
            stages=stages,
        )

    def _cold(self, entry: Entry, seconds: float, extras: Extras) -> Entry:
        size, least = extras.cold_bytes, extras.least
        samples = self._time(seconds, least, cache_bytes=size)["samples"]
        entry = replace(entry, cold=[*entry.cold, samples])
        if not self.warms:
            return entry
        samples = self._time(seconds, least, cache_bytes=size, warm=True)["samples"]
        return replace(entry, cold_weights=[*entry.cold_weights, samples])

    def _time(self, seconds: float, least: int, **what: Any) -> dict[str, Any]:
        calls = 1 if self.first > _SLOW_CALL else least
        timeout = 60 + 20 * (seconds + calls * self.first)
        answer = self.process.ask(
            timeout, do="time", seconds=seconds, calls=calls, slot=self.label, **what
        )
        if answer.get("broken"):
            self.process.close()
        if "samples" not in answer:
            raise WorkerError(reason(answer))
        return answer

    def drop(self) -> None:
        """Free the prepared case."""
        try:
            self.process.ask(HELLO_SECONDS, do="drop", slot=self.label)
        except WorkerError:
            self.process.close()


def reason(answer: Mapping[str, Any]) -> str:
    """Why a worker's answer is no result."""
    for key in ("absent", "unsupported", "failure"):
        if key in answer:
            return str(answer[key])
    return f"unexpected answer {answer!r}"
