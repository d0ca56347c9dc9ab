"""Times of candidates: quick ones for the search, interleaved ones before anything is logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Protocol

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import host_model
from tvmconv.machines.record import processor
from tvmconv.measuring.gpu.state import gpu_state
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.journal import SPILLED, Trial
from tvmconv.tuning.pool import Choice, Failure, Pool, Running
from tvmconv.tuning.results import MeasuredChoice

# a candidate whose first call takes this many times the best time is not timed further
_OUTCLASSED = 5.0
# a first call includes page faults and the start of the threads
_ALWAYS_TIMED = 5e-3
WEIGHTS, GPU_WEIGHTS = "in memory", "as calls in a row leave L2"
TIMES = "of the anchor's moment"


@dataclass(frozen=True)
class Quick:
    """How long the search measures a candidate: ``samples`` that take ``seconds`` or more each."""

    samples: int = 5
    seconds: float = 0.004


@dataclass(frozen=True)
class Final:
    """The interleaved measurement: ``rounds``, with one sample of ``seconds`` each.

    ``draft`` compiles each kernel with less of LLVM's work, for a measurement that only preselects.
    """

    rounds: int = 24
    seconds: float = 0.008
    draft: bool = False


class Measurer(Protocol):
    """Where candidates are measured: this machine, or devices of a tracker."""

    @property
    def weights(self) -> str:
        """Where the weights are before a measured call; trials and records store it."""

    @property
    def times(self) -> str:
        """The kind of the seconds of trials, so that other kinds are not mixed with them."""

    @property
    def tracker(self) -> Mapping[str, Any] | None:
        """``host``, ``port``, ``key`` and ``session_seconds`` of a device; None for this one."""

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """Quick measurements of all choices, in order.

        ``best`` is the time of the best so far: far slower kernels get one sample. Kernels that
        spill registers get none, except the anchor's choice. With an ``anchor``, all seconds refer
        to its moment.
        """

    def interleaved(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        final: Final,
    ) -> list[MeasuredChoice | Failure]:
        """Interleaved samples of several kernels, so that drift and noise affect all alike."""

    def identity(self) -> dict[str, str]:
        """The device that measured last, for the records."""


class LocalMeasurer:
    """This machine: candidates are built in parallel and then measured one at a time."""

    weights, times = WEIGHTS, TIMES
    tracker = None

    def __init__(self, pool: Pool, quick: Quick | None = None) -> None:
        self.pool = pool
        self.quick = quick or Quick()

    def identity(self) -> dict[str, str]:
        """The processor's name."""
        return {"cpu": host_model()}

    def ensure(self, machine: Device, what: str) -> None:
        """Raise :class:`ArtifactError` for code that this CPU cannot run."""
        ensure_machine(processor(machine), what)

    def trials(
        self,
        workload: Conv2dWorkload,
        machine: Device,
        choices: Sequence[Choice],
        best: float = math.inf,
        anchor: Anchor | None = None,
    ) -> Iterator[Trial]:
        """See :class:`Measurer`."""
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
    ) -> list[MeasuredChoice | Failure]:
        """See :class:`Measurer`."""
        self.ensure(machine, f"a candidate of {workload}")
        built = self.pool.build(workload, machine, choices, draft=final.draft)
        found = [
            each if isinstance(each, Failure) else checked(choice, each.check or {})
            for choice, each in zip(choices, built, strict=True)
        ]
        try:
            for _ in range(final.rounds):
                for number, (running, measured) in enumerate(zip(built, found, strict=True)):
                    if isinstance(running, Failure) or isinstance(measured, Failure):
                        continue
                    try:
                        timed = running.order("time", samples=1, seconds=final.seconds)
                        samples = (*measured.samples, *timed["samples"])
                        found[number] = replace(measured, samples=samples)
                    except Failure as failure:
                        found[number] = failure
        finally:
            _close(built)
        return found


class GpuMeasurer(LocalMeasurer):
    """This machine's GPU: kernels are compiled in parallel and timed one at a time."""

    weights = GPU_WEIGHTS

    def identity(self) -> dict[str, str]:
        """Name and driver of the GPU, under the name that records have for what measured."""
        return dict(self._identity)

    def ensure(self, machine: Device, what: str) -> None:
        """Raise :class:`ArtifactError` for code that the GPU here cannot run."""
        assert isinstance(machine, CudaMachine)
        state = gpu_state(machine)
        smi = state["nvidia_smi"]
        self._identity = {
            "cpu": str(state["name"]),
            "driver": str(smi.get("driver_version", f"CUDA {state['driver_cuda']}")),
        }

    _identity: dict[str, str] = {}  # noqa: RUF012


def quick_trial(
    choice: Choice,
    built: Running | Failure,
    best: float,
    quick: Quick,
    spared: Choice | None = None,
    anchor: Anchor | None = None,
) -> Trial:
    """Verify and time one candidate, and end its process.

    A kernel that spills registers is not timed, unless it is the ``spared`` one.
    """
    algorithm, config = choice
    if isinstance(built, Failure):
        return Trial(algorithm, config, built.kind, math.inf)
    try:
        if built.spill_bytes and choice != spared:
            return Trial(algorithm, config, SPILLED, math.inf)
        verified = built.check or built.order("verify")
        error = float(verified["error"])
        if verified["status"] != "correct":
            return Trial(algorithm, config, "wrong", math.inf, error)
        most = max(_OUTCLASSED * best, _ALWAYS_TIMED)
        if anchor is not None and anchor.ready:
            seconds = _interleaved(built, most, quick, anchor, best)
            return Trial(algorithm, config, "timed", seconds, error)
        samples = _samples(built, quick.samples, quick.seconds, most)
        return Trial(algorithm, config, "timed", min(samples), error)
    except Failure as failure:
        return Trial(algorithm, config, failure.kind, math.inf)
    finally:
        built.close()


def _interleaved(built: Running, most: float, quick: Quick, anchor: Anchor, best: float) -> float:
    """The time of a candidate in the anchor's moment: the median of the ratios of the rounds.

    A ratio of minimum times would compare lucky samples: without a neighbor on the same core,
    samples are up to twice as fast. A candidate that would lead gets as many rounds again, because
    a lucky leader misleads the search.
    """
    seconds = math.inf
    ratios: list[float] = []
    rounds = anchor.rounds(quick.samples)
    for round_number in range(2 * rounds):
        if round_number == rounds and seconds > best:
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


def checked(
    choice: Choice, answer: Mapping[str, Any], samples: Sequence[float] = ()
) -> MeasuredChoice | Failure:
    """A choice with its samples and the result of its verification."""
    if answer.get("status") != "correct":
        return Failure("wrong", f"error {answer.get('error', math.inf):.3g}")
    return MeasuredChoice(*choice, tuple(samples), float(answer["error"]), float(answer["limit"]))


def _close(built: Sequence[Running | Failure]) -> None:
    for running in built:
        if isinstance(running, Running):
            running.close()
