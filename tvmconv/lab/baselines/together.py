"""Calls from several threads at the same time: the time of each, and how many end in a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def time_together(
    callers: Sequence[Callable[[], object]], seconds: float, calls: int
) -> tuple[list[float], float]:
    """Seconds of every call, and calls in a second.

    A thread for each caller calls it again and again: for some seconds, and at least ``calls``
    times. The rates of the threads are added up, each until its own last call has ended.
    """
    start = threading.Barrier(len(callers))
    clock = time.perf_counter

    def work(run: Callable[[], object]) -> tuple[list[float], float]:
        samples: list[float] = []
        start.wait()
        begin = before = clock()
        while len(samples) < calls or before < begin + seconds:
            run()
            now = clock()
            samples.append(now - before)
            before = now
        return samples, before - begin

    with ThreadPoolExecutor(len(callers)) as pool:
        found = list(pool.map(work, callers))
    rate = sum(len(samples) / wall for samples, wall in found)
    return [round(sample, 9) for samples, _ in found for sample in samples], rate
