"""The untuned choice, timed in interleaved runs with every candidate, so that drift cancels out.

The clock of a CPU and the load of its neighbors change by tens of percent from second to second.
A search that compares times of different moments selects the moment, not the kernel.
"""

from __future__ import annotations

import math
from statistics import median

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.tuning.pool import Choice, Failure, Pool, Running

# slower kernels are measured in fewer rounds
_SLOW = 0.01
_FEW = 3


class Anchor:
    """One kernel that stays ready while a workload is searched.

    ``choice`` usually is the default. ``seconds`` is its time in the moment that all times refer
    to; infinite until its first measurement.
    """

    def __init__(self, choice: Choice, seconds: float = math.inf) -> None:
        self.choice = choice
        self.seconds = seconds
        self._running: Running | None = None

    @property
    def ready(self) -> bool:
        """Whether it can be timed."""
        return self._running is not None

    def start(
        self, pool: Pool, workload: Conv2dWorkload, machine: Device, samples: int, seconds: float
    ) -> None:
        """Build it where it is not running; before candidates are timed."""
        if self._running is None:
            (built,) = pool.build(workload, machine, [self.choice])
            self._running = built if isinstance(built, Running) else None
        if not math.isfinite(self.seconds):
            self.seconds = median(self.sample(seconds) for _ in range(samples))

    def rounds(self, wanted: int) -> int:
        """How often to time a candidate interleaved with it."""
        return min(wanted, _FEW) if self.seconds > _SLOW else wanted

    def sample(self, seconds: float) -> float:
        """Its time now; infinite where its process is gone."""
        if self._running is None:
            return math.inf
        try:
            answer = self._running.order("time", samples=1, seconds=seconds)
        except Failure:
            self._running = None
            return math.inf
        return float(answer["samples"][0])

    def slowness(self, now: float) -> float:
        """How many times longer everything takes now; 1 where that is unknown."""
        known = math.isfinite(now) and math.isfinite(self.seconds)
        return now / self.seconds if known else 1.0

    def close(self) -> None:
        """End its process."""
        if self._running is not None:
            self._running.close()
            self._running = None
