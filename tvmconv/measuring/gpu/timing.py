"""Times of calls on a GPU by its own events: warm calls in a graph, or each after its caches."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tvmconv.measuring.gpu.driver import CapturedGraph, DeviceArray, Gpu

# a sample of shorter calls is the mean of several, to hide the launch of the graph
SAMPLE_SECONDS = 200e-6
MOST_TOGETHER = 50
# L2 is displaced by writing this many times its size
FLUSH_TIMES = 2
_LEAST_FLUSH = 32 << 20


class Timer:
    """Samples of calls that enqueue the same launches every time."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._graphs: dict[Callable[[], object], tuple[CapturedGraph, int]] = {}
        self._flush: DeviceArray | None = None

    def samples(self, run: Callable[[], object], count: int, cache_bytes: int = 0) -> list[float]:
        """Seconds of one call, ``count`` times.

        ``run`` enqueues one call. Caches of ``cache_bytes`` are displaced before each call; 0 keeps
        them warm.
        """
        if cache_bytes:
            return [
                self._gpu.elapsed(run, lambda: self._displace(cache_bytes)) for _ in range(count)
            ]
        graph, together = self._graph(run)
        return [self._gpu.elapsed(graph) / together for _ in range(count)]

    def _graph(self, run: Callable[[], object]) -> tuple[CapturedGraph, int]:
        """A graph of the calls of one sample; the first replays are not samples."""
        found = self._graphs.get(run)
        if found is None:
            # the first launch may load the kernel, which a capture does not allow
            run()
            self._gpu.wait()
            once = self._gpu.capture(run)
            seconds = min(self._gpu.elapsed(once) for _ in range(3))
            together = min(MOST_TOGETHER, max(1, ceil(SAMPLE_SECONDS / max(seconds, 1e-9))))

            def several() -> None:
                for _ in range(together):
                    run()

            graph = once if together == 1 else self._gpu.capture(several)
            self._gpu.elapsed(graph)
            found = self._graphs[run] = (graph, together)
        return found

    def _displace(self, cache_bytes: int) -> None:
        size = max(FLUSH_TIMES * cache_bytes, _LEAST_FLUSH)
        if self._flush is None or self._flush.nbytes < size:
            self._flush = DeviceArray(self._gpu, (size,), "uint8")
        self._gpu.fill(self._flush.pointer, 0, size)
