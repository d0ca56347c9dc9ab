"""The untuned choice, timed beside every candidate: the machine's drift cancels out.

A processor's clock and its neighbours' load change by tens of percent from one second to the next.
A search that compares times of different moments picks the moments: on a shared machine the
finalists were those of a fast second, and the default beat them all in turns.
"""

from __future__ import annotations

import math

from tvmconv.machine import Machine
from tvmconv.tuning.pool import Choice, Failure, Pool, Running
from tvmconv.workload import Conv2dWorkload


class Anchor:
    """One kernel that stays ready while a workload is searched.

    Parameters
    ----------
    choice
        Usually the default.
    seconds
        Its time in the moment that all times are given for; infinite where that is yet to come:
        the first measurement then.
    """

    def __init__(self, choice: Choice, seconds: float = math.inf) -> None:
        self.choice = choice
        self.seconds = seconds
        self._running: Running | None = None

    def start(self, pool: Pool, workload: Conv2dWorkload, machine: Machine) -> None:
        """Build it where it is not running; before candidates are timed."""
        if self._running is None:
            (built,) = pool.build(workload, machine, [self.choice])
            self._running = built if isinstance(built, Running) else None

    def slowness(self, samples: int, seconds: float) -> float:
        """How many times longer everything takes now; 1 where that cannot be told."""
        if self._running is None:
            return 1.0
        try:
            answer = self._running.order("time", samples=samples, seconds=seconds)
        except Failure:
            self._running = None
            return 1.0
        now = min(map(float, answer["samples"]))
        if not math.isfinite(self.seconds):
            self.seconds = now
        return now / self.seconds

    def close(self) -> None:
        """End its process."""
        if self._running is not None:
            self._running.close()
            self._running = None
