"""The untuned choice, timed in turns with every candidate: the machine's drift cancels out.

A processor's clock and its neighbours' load change by tens of percent from one second to the next.
A search that compares times of different moments picks the moments: on a shared machine the
finalists were those of a fast second, and the default beat them all in turns.
"""

from __future__ import annotations

import math
from statistics import median

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.tuning.pool import Choice, Failure, Pool, Running

# kernels that take longer are measured in fewer turns
_SLOW = 0.01
_FEW = 3


class Anchor:
    """One kernel that stays ready while a workload is searched.

    Parameters
    ----------
    choice
        Usually the default.
    seconds
        Its time in the moment that all times are given for; infinite where that is yet to come:
        its first measurement then.
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

    def turns(self, wanted: int) -> int:
        """How often to time a candidate in turn with it."""
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
        """How many times longer everything takes when it takes ``now``; 1 where that is unknown."""
        known = math.isfinite(now) and math.isfinite(self.seconds)
        return now / self.seconds if known else 1.0

    def close(self) -> None:
        """End its process."""
        if self._running is not None:
            self._running.close()
            self._running = None
