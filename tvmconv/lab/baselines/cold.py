"""Calls with data in memory, as in a network that does not fit the caches."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

# reading this many times the last-level cache leaves nothing else in it
_TIMES = 2
_LEAST_BYTES = 64 * 1024**2


class Eviction:
    """Displaces everything else from caches of ``cache_bytes``."""

    def __init__(self, cache_bytes: int) -> None:
        self._values = np.ones(max(_TIMES * cache_bytes, _LEAST_BYTES) // 4, np.float32)

    def __call__(self) -> None:
        """Read enough memory."""
        self._values.sum()


def cold_call(
    run: Callable[[], object], evict: Eviction, warm: Callable[[], object] | None = None
) -> float:
    """Seconds of one call that follows an eviction.

    ``warm`` is called in between; it brings back the data that the previous layer would have left
    in the caches.
    """
    evict()
    if warm is not None:
        warm()
    start = perf_counter()
    run()
    return perf_counter() - start
