"""Calls whose data lie in memory, as in a network that does not fit the caches."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

# reading this many times the last-level cache leaves nothing else in it
_TIMES = 2
_LEAST_BYTES = 64 * 1024**2


class Eviction:
    """Displaces everything else from the caches.

    Parameters
    ----------
    cache_bytes
        Size of the last-level cache.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._values = np.ones(max(_TIMES * cache_bytes, _LEAST_BYTES) // 4, np.float32)

    def __call__(self) -> None:
        """Read enough memory."""
        self._values.sum()


def cold_call(
    run: Callable[[], object], evict: Eviction, warm: Callable[[], object] | None = None
) -> float:
    """Seconds of one call that follows an eviction.

    Parameters
    ----------
    run
        The call.
    evict
        Shared by all calls, for its memory.
    warm
        Called in between; brings back what the layer before would have left in the caches.
    """
    evict()
    if warm is not None:
        warm()
    start = perf_counter()
    run()
    return perf_counter() - start
