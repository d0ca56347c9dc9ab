"""Times of candidates: a quick one for the search, an interleaved one before anything is logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from tvmconv.config import Config
from tvmconv.machine import Machine
from tvmconv.tuning.journal import Trial
from tvmconv.tuning.pool import Choice, Failure, Running
from tvmconv.workload import Conv2dWorkload

# a candidate whose first call takes this much longer than the best is not timed further
_OUTCLASSED = 5.0
_SMALLEST_GAIN = 0.01
_Z95 = 1.96


class Builder(Protocol):
    """Where candidates are built and run: this machine's pool, or devices of a tracker."""

    def build(
        self, workload: Conv2dWorkload, machine: Machine, choices: Sequence[Choice]
    ) -> list[Running | Failure]:
        """Built candidates in the order given."""


@dataclass(frozen=True)
class Quick:
    """How long the search measures a candidate: ``samples`` of at least ``seconds``."""

    samples: int = 5
    seconds: float = 0.004


@dataclass(frozen=True)
class Final:
    """The interleaved measurement: ``rounds`` turns, one sample of ``seconds`` each."""

    rounds: int = 24
    seconds: float = 0.008


_QUICK = Quick()
_FINAL = Final()


@dataclass(frozen=True)
class Measured:
    """One kernel of an interleaved measurement."""

    algorithm: str
    config: Config
    samples: tuple[float, ...]
    error: float
    limit: float


def trials(
    builder: Builder,
    workload: Conv2dWorkload,
    machine: Machine,
    choices: Sequence[Choice],
    best: float = math.inf,
    quick: Quick = _QUICK,
) -> Iterator[Trial]:
    """Measure candidates one after another; every one gets a result.

    Parameters
    ----------
    builder
        Where they run.
    workload, machine, choices
        What they are.
    best
        Seconds of the best so far; what is far slower gets one sample only.
    quick
        Samples of the others.
    """
    built = builder.build(workload, machine, choices)
    try:
        for choice, candidate in zip(choices, built, strict=True):
            trial = _trial(choice, candidate, best, quick)
            if trial.status == "timed":
                best = min(best, trial.seconds)
            yield trial
    finally:
        _close(built)


def _trial(choice: Choice, built: Running | Failure, best: float, quick: Quick) -> Trial:
    algorithm, config = choice
    if isinstance(built, Failure):
        return Trial(algorithm, config, built.kind, math.inf)
    try:
        checked = built.order("verify")
        error = float(checked["error"])
        if checked["status"] != "correct":
            return Trial(algorithm, config, "wrong", math.inf, error)
        seconds = float(checked["seconds"])
        if seconds < max(_OUTCLASSED * best, 1e-3):
            timed = built.order("time", samples=quick.samples, seconds=quick.seconds)
            seconds = min(float(s) for s in timed["samples"])
        return Trial(algorithm, config, "timed", seconds, error)
    except Failure as failure:
        return Trial(algorithm, config, failure.kind, math.inf)
    finally:
        built.close()


def interleaved(
    builder: Builder,
    workload: Conv2dWorkload,
    machine: Machine,
    choices: Sequence[Choice],
    final: Final = _FINAL,
) -> list[Measured | Failure]:
    """Samples of several kernels in turns, so that drift and noise meet all alike."""
    built = builder.build(workload, machine, choices)
    failures: dict[int, Failure] = {}
    samples: dict[int, list[float]] = {n: [] for n in range(len(choices))}
    checks: dict[int, tuple[float, float]] = {}
    try:
        for turn in range(-1, final.rounds):
            for number, running in enumerate(built):
                if isinstance(running, Failure):
                    failures[number] = running
                if number in failures or isinstance(running, Failure):
                    continue
                try:
                    if turn < 0:
                        checked = running.order("verify")
                        if checked["status"] != "correct":
                            raise Failure("wrong", f"error {checked['error']:.3g}")
                        checks[number] = (float(checked["error"]), float(checked["limit"]))
                        continue
                    timed = running.order("time", samples=1, seconds=final.seconds)
                    samples[number] += timed["samples"]
                except Failure as failure:
                    failures[number] = failure
    finally:
        _close(built)
    return [
        failures.get(n) or Measured(*choice, tuple(samples[n]), *checks[n])
        for n, choice in enumerate(choices)
    ]


def _close(built: Sequence[Running | Failure]) -> None:
    for running in built:
        if isinstance(running, Running):
            running.close()


def gain(default: Sequence[float], tuned: Sequence[float]) -> tuple[float, float]:
    """How many times faster: the median of the turns' ratios, and its lower 95 % bound.

    The bound is the distribution-free one of the median: an order statistic of the ratios.
    """
    ratios = sorted(d / t for d, t in zip(default, tuned, strict=True))
    count = len(ratios)
    low = math.floor(count / 2 - _Z95 * math.sqrt(count) / 2)
    return median(ratios), ratios[max(low, 0)]


def is_better(default: Sequence[float], tuned: Sequence[float]) -> bool:
    """Whether a gain is more than noise: the lower bound exceeds one by a hundredth."""
    return gain(default, tuned)[1] > 1 + _SMALLEST_GAIN
