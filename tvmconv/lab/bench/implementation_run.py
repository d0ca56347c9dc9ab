"""One implementation of a bench during a case: its rounds, with all times of them."""

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
    """Measurements other than the time of warm calls.

    ``stages`` are of our kernels. ``cold_bytes`` is the size of caches from which everything is
    evicted before a call; 0 for no such calls. ``memory`` is the growth of a process in its first
    call, in a process of its own. ``load`` is time and memory of loading a model and of its first
    call in a fresh process. A round has at least ``samples`` samples; one for calls above a second.
    """

    stages: bool = False
    cold_bytes: int = 0
    memory: bool = False
    load: bool = False
    samples: int = 2


@dataclass
class ImplementationRun:
    """An implementation, its process, and its answers to the preparation of a case."""

    implementation: Implementation
    process: WorkerProcess
    first: float = 0.0
    stages: Sequence[str] = ()
    warms: bool = False
    colds: bool = True

    @property
    def label(self) -> str:
        """The implementation's name."""
        return self.implementation.label

    @property
    def named(self) -> bool:
        """Whether the user named this form of an algorithm."""
        variant = dict(self.implementation.options).get("variant")
        return bool(variant and variant["named"])

    def time_round(self, entry: Entry, seconds: float, extras: Extras) -> Entry:
        """Time the implementation for one round."""
        try:
            entry = self._warm(entry, seconds, extras.samples)
            if extras.cold_bytes and self.colds and entry.label != PEAK:
                entry = self._cold(entry, seconds, extras)
        except WorkerError as error:
            return replace(entry, status="failed", message=str(error))
        return entry

    def _warm(self, entry: Entry, seconds: float, samples: int) -> Entry:
        busy = busy_seconds()
        answer = self._time(seconds, samples)
        others = busy_seconds() - busy - answer["cpu_seconds"]
        foreign = round(max(others, 0.0) / max(answer["wall_seconds"], 1e-3), 2)
        stages = dict(entry.stages)
        for stage in self.stages:
            last = stage == self.stages[-1]
            found = answer if last else self._time(seconds, samples, stage=stage)
            stages[stage] = [*stages.get(stage, ()), min(found["samples"])]
        return replace(
            entry,
            rounds=[*entry.rounds, answer["samples"]],
            foreign=[*entry.foreign, foreign],
            stages=stages,
            rates=[*entry.rates, answer["rate"]] if "rate" in answer else entry.rates,
        )

    def _cold(self, entry: Entry, seconds: float, extras: Extras) -> Entry:
        size, count = extras.cold_bytes, extras.samples
        samples = self._time(seconds, count, cache_bytes=size)["samples"]
        entry = replace(entry, cold=[*entry.cold, samples])
        if not self.warms:
            return entry
        samples = self._time(seconds, count, cache_bytes=size, warm=True)["samples"]
        return replace(entry, cold_weights=[*entry.cold_weights, samples])

    def _time(self, seconds: float, samples: int, **what: Any) -> dict[str, Any]:
        calls = 1 if self.first > _SLOW_CALL else samples
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
    """Why a worker's answer is not a result."""
    for key in ("absent", "unsupported", "failure"):
        if key in answer:
            return str(answer[key])
    return f"unexpected answer {answer!r}"
