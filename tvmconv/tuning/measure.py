"""Times of candidates: a quick one for the search, an interleaved one before anything is logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import host_model
from tvmconv.machines.record import processor
from tvmconv.records.record import paired_ratios
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.journal import SPILLED, Trial
from tvmconv.tuning.pool import Choice, Failure, Pool, Running

# a candidate whose first call takes this much longer than the best is not timed further
_OUTCLASSED = 5.0
# a first call includes page faults and the start of the threads
_ALWAYS_TIMED = 5e-3
_SMALLEST_GAIN = 0.01
# of a measured call
WEIGHTS = "in memory"
TIMES = "of the anchor's moment"
_Z95 = 1.96


@dataclass(frozen=True)
class Quick:
    """How long the search measures a candidate: ``samples`` of at least ``seconds``."""

    samples: int = 5
    seconds: float = 0.004


@dataclass(frozen=True)
class Final:
    """The interleaved measurement: ``rounds`` turns, one sample of ``seconds`` each.

    With a ``draft`` of each kernel where that only chooses among them.
    """

    rounds: int = 24
    seconds: float = 0.008
    draft: bool = False


@dataclass(frozen=True)
class Measured:
    """One kernel of an interleaved measurement."""

    algorithm: str
    config: Config
    samples: tuple[float, ...]
    error: float
    limit: float


def verification(workload: Conv2dWorkload, measured: Measured) -> dict[str, Any]:
    """What a record says of a kernel's result."""
    reference = "int64" if workload.types.is_integer else "float64"
    return {"reference": reference, "error": measured.error, "limit": measured.limit}


class Measurer(Protocol):
    """Where candidates are measured: this machine, or devices of a tracker."""

    @property
    def weights(self) -> str:
        """Where the weights lie before a call that is measured; trials and records say so."""

    @property
    def times(self) -> str:
        """What the seconds of trials are, so that others are not taken for them."""

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """Quick measurements, every choice with a result, in order.

        ``best`` is the seconds of the best so far; what is far slower gets one sample only. What
        spills registers gets none, unless it is the anchor's choice.
        Where an ``anchor`` is timed in turn with them, all seconds are those of its moment.
        """

    def interleaved(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        final: Final,
    ) -> list[Measured | Failure]:
        """Samples of several kernels in turns, so that drift and noise meet all alike."""

    def identity(self) -> dict[str, str]:
        """What measured last, for the records."""


class LocalMeasurer:
    """This machine: candidates are built in parallel and then measured one at a time."""

    weights, times = WEIGHTS, TIMES

    def __init__(self, pool: Pool, quick: Quick | None = None) -> None:
        self.pool = pool
        self.quick = quick or Quick()

    def identity(self) -> dict[str, str]:
        """The processor's name."""
        return {"cpu": host_model()}

    def ensure(self, machine: Device, what: str) -> None:
        """Refuse what this processor cannot run."""
        ensure_machine(processor(machine), what)

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """See :class:`Measurer`.

        Raises
        ------
        ArtifactError
            If this processor cannot run what is compiled for the machine.
        """
        self.ensure(machine, f"a candidate of {workload}")
        if anchor is not None:
            quick = self.quick
            anchor.start(self.pool, workload, machine, quick.samples, quick.seconds)
        spared = anchor.choice if anchor is not None else None
        built = self.pool.build(workload, machine, choices, draft=True)
        try:
            for choice, candidate in zip(choices, built, strict=True):
                trial = quick_trial(choice, candidate, best, self.quick, spared, anchor)
                if trial.status == "timed":
                    best = min(best, trial.seconds)
                yield trial
        finally:
            _close(built)

    def interleaved(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        final: Final,
    ) -> list[Measured | Failure]:
        """See :class:`Measurer`.

        Raises
        ------
        ArtifactError
            As :meth:`trials`.
        """
        self.ensure(machine, f"a candidate of {workload}")
        built = self.pool.build(workload, machine, choices, draft=final.draft)
        results: dict[int, Failure] = {n: b for n, b in enumerate(built) if isinstance(b, Failure)}
        samples: dict[int, list[float]] = {n: [] for n in range(len(choices))}
        checks: dict[int, tuple[float, float]] = {}
        try:
            for turn in range(-1, final.rounds):
                for number, running in enumerate(built):
                    if number in results or isinstance(running, Failure):
                        continue
                    try:
                        if turn < 0:
                            checks[number] = _checked(running.check or {})
                        else:
                            timed = running.order("time", samples=1, seconds=final.seconds)
                            samples[number] += timed["samples"]
                    except Failure as failure:
                        results[number] = failure
        finally:
            _close(built)
        return [
            results.get(n) or Measured(*choice, tuple(samples[n]), *checks[n])
            for n, choice in enumerate(choices)
        ]


def quick_trial(
    choice: Choice,
    built: Running | Failure,
    best: float,
    quick: Quick,
    spared: Choice | None = None,
    anchor: Anchor | None = None,
) -> Trial:
    """Verify and time one candidate, and end its process.

    One whose registers are spilled is not timed, but for the ``spared``, which others are held to.
    """
    algorithm, config = choice
    if isinstance(built, Failure):
        return Trial(algorithm, config, built.kind, math.inf)
    try:
        if built.spill_bytes and choice != spared:
            return Trial(algorithm, config, SPILLED, math.inf)
        checked = built.check or built.order("verify")
        error = float(checked["error"])
        if checked["status"] != "correct":
            return Trial(algorithm, config, "wrong", math.inf, error)
        most = max(_OUTCLASSED * best, _ALWAYS_TIMED)
        if anchor is not None and anchor.ready:
            seconds = _in_turns(built, most, quick, anchor, best)
            return Trial(algorithm, config, "timed", seconds, error)
        samples = _samples(built, quick.samples, quick.seconds, most)
        return Trial(algorithm, config, "timed", min(samples), error)
    except Failure as failure:
        return Trial(algorithm, config, failure.kind, math.inf)
    finally:
        built.close()


def _in_turns(built: Running, most: float, quick: Quick, anchor: Anchor, best: float) -> float:
    """The time of a candidate in the anchor's moment: the median of the turns' ratios.

    Not the ratio of the least: where a neighbour has the other half of the core most of the
    time, the few samples without it are up to twice as fast, and either may have got one. What
    would lead gets as many turns again: a leader by luck draws the search after it.
    """
    seconds = math.inf
    ratios: list[float] = []
    turns = anchor.turns(quick.samples)
    for turn in range(2 * turns):
        if turn == turns and seconds > best:
            break
        slowness = anchor.slowness(anchor.sample(quick.seconds))
        (sample,) = _samples(built, 1, quick.seconds, most * slowness)
        ratios.append(sample / slowness)
        seconds = median(ratios)
        if ratios[0] > most:
            break
    return seconds


def _samples(built: Running, count: int, seconds: float, most: float) -> list[float]:
    limit = {"most": most} if math.isfinite(most) else {}
    return [
        float(s) for s in built.order("time", samples=count, seconds=seconds, **limit)["samples"]
    ]


def _checked(answer: Mapping[str, Any]) -> tuple[float, float]:
    if answer.get("status") != "correct":
        raise Failure("wrong", f"error {answer.get('error', math.inf):.3g}")
    return float(answer["error"]), float(answer["limit"])


def _close(built: Sequence[Running | Failure]) -> None:
    for running in built:
        if isinstance(running, Running):
            running.close()


def gain(default: Sequence[float], tuned: Sequence[float]) -> tuple[float, float]:
    """How many times faster: the median of the turns' ratios, and its lower 95 % bound.

    The bound is the distribution-free one of the median: an order statistic of the ratios.
    """
    ratios = sorted(paired_ratios(default, tuned))
    count = len(ratios)
    low = math.floor(count / 2 - _Z95 * math.sqrt(count) / 2)
    return median(ratios), ratios[max(low, 0)]


def is_better(default: Sequence[float], tuned: Sequence[float]) -> bool:
    """Whether a gain is more than noise: the lower bound exceeds one by a hundredth."""
    return gain(default, tuned)[1] > 1 + _SMALLEST_GAIN


def seems_better(default: Sequence[float], tuned: Sequence[float]) -> bool:
    """Whether the median promises such a gain, which more samples may confirm."""
    return gain(default, tuned)[0] > 1 + _SMALLEST_GAIN


def fastest_gains(default: Measured, others: Sequence[Measured]) -> list[Measured]:
    """Of each algorithm the fastest that beats the default by more than the noise."""
    better = [measured for measured in others if is_better(default.samples, measured.samples)]
    better.sort(key=lambda measured: gain(default.samples, measured.samples))
    return list({measured.algorithm: measured for measured in better}.values())
