"""Which threads of this process compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def cpu_seconds() -> dict[str, float]:
    """Processor time of every living thread."""
    times = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            times[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:  # it ended meanwhile
            continue
    return times


def threads_used(call: Callable[[], object], expected: int = 0, turns: int = 20) -> int:
    """Threads that computed while a function was called again and again.

    The first of several calls that shows the expected number counts. On a busy machine a worker may
    get no CPU for a while, and its caller does all the work.
    """
    used = 0
    for _ in range(turns if expected else 1):
        used = _threads_used(call)
        if used == expected:
            break
    return used


def _threads_used(call: Callable[[], object], seconds: float = 0.4) -> int:
    call()
    time.sleep(0.1)  # workers of the warm-up go to sleep
    before, end = cpu_seconds(), time.monotonic() + seconds
    while time.monotonic() < end:
        call()
    spent = {task: now - before.get(task, 0) for task, now in cpu_seconds().items()}
    most = max(spent.values())
    return sum(value > most / 4 for value in spent.values())
