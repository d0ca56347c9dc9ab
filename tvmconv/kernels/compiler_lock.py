"""A lock for the parts of TVM that share state between threads.

``relax.BlockBuilder`` keeps open functions in one list of the process, and ``te`` its tags. TVM's
modules import each other in circles. Reading, lowering and scheduling therefore hold one lock. Code
generation for scheduled functions shares no state and takes most of the time, so it runs without
the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tvmconv.core.interrupts import checkpoint
from tvmconv.runtime import forks

_lock = threading.RLock()
# maximum delay of Ctrl-C while waiting for another thread's build
_POLL_SECONDS = 0.1


@contextmanager
def compiler_lock() -> Iterator[None]:
    """Wait until no other thread works with TVM; a context manager and a decorator."""
    with forks.native(lengthy=True):
        while not _lock.acquire(timeout=_POLL_SECONDS):
            checkpoint()
        try:
            yield
        finally:
            _lock.release()
