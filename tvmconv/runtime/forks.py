"""Forks happen between native calls, so that a child inherits no held lock.

A forked child has the memory of its parent, but only the thread that forked. A lock that another
thread holds then (of TVM's allocator, the import system or tvmconv) is never released. So
:class:`native` announces every part that takes such locks. A fork waits until the other threads
have left these parts, and meanwhile they enter no new part. The wait is short. Where a model is
being built, or a call takes seconds, tvmconv fails in the child with an error in place of a hang.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ContextDecorator

from ..core.errors import TvmconvError

# A call takes milliseconds; a fork does not wait for anything longer.
_PATIENCE_SECONDS = 2.0
_POLL_SECONDS = 0.0002

# Single operations of dictionaries need no lock, which would itself have to survive the fork.
_inside: dict[int, int] = {}
_lengthy: dict[int, int] = {}
_forking: set[int] = set()
# threads of the parent that were inside when this process was forked
_lost: set[int] = set()


class native(ContextDecorator):
    """Announces that this thread may hold locks of native code or of tvmconv.

    Forks do not wait for a ``lengthy`` part.

    Raises
    ------
    TvmconvError
        On entering, in a process that was forked while such a part ran in another thread.
    """

    def __init__(self, *, lengthy: bool = False) -> None:
        self._count = _lengthy if lengthy else _inside

    def __enter__(self) -> None:
        if _lost:
            raise TvmconvError(
                "this process was forked while another thread of its parent built or ran a model, "
                "so locks are held for ever. Fork before, or start processes by 'spawn' or "
                "'forkserver' of multiprocessing."
            )
        thread = threading.get_ident()
        while True:
            nested = thread in _inside or thread in _lengthy
            self._count[thread] = self._count.get(thread, 0) + 1
            if nested or not _forking - {thread}:
                return
            _leave(self._count, thread)
            time.sleep(_POLL_SECONDS)

    def __exit__(self, *_: object) -> None:
        _leave(self._count, threading.get_ident())


class Lock:
    """A lock that no forked child finds held."""

    def __init__(self) -> None:
        self._native = native()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._native.__enter__()
        try:
            self._lock.acquire()
        except BaseException:  # a signal handler's, while waiting
            self._native.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._native.__exit__()


def _leave(count: dict[int, int], thread: int) -> None:
    # a child that was forked inside knows only of its own thread
    if count.get(thread, 0) > 1:
        count[thread] -= 1
    else:
        count.pop(thread, None)


def _others(count: dict[int, int]) -> set[int]:
    return set(count) - {threading.get_ident()}


def _before_fork() -> None:
    _forking.add(threading.get_ident())
    end = time.monotonic() + _PATIENCE_SECONDS
    while _others(_inside) and not _others(_lengthy) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def _in_parent() -> None:
    _forking.discard(threading.get_ident())


def _in_child() -> None:
    for count in (_inside, _lengthy):
        for thread in _others(count):
            _lost.add(thread)
            del count[thread]
    _forking.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
