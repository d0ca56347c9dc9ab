"""Calls of a model that wait in a queue for one of several streams."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from ..core.arguments import shown, whole
from ..core.errors import InputError
from ..core.interrupts import uninterrupted
from . import forks
from .idle import bind_thread
from .outputs import Outputs

Result = TypeVar("Result")

MOST_STREAMS = 1024


class StreamThreads:
    """The threads of streams; a forked child gets threads of its own on first use.

    ``bindings`` has the CPUs of each thread; empty if threads are not bound.
    """

    def __init__(self, count: int, bindings: Sequence[tuple[int, ...]] = ()) -> None:
        self.count = count
        self.bindings = tuple(bindings)
        self._lock = forks.Lock()
        self._process = 0
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Queue a call of a function."""
        pool = self._pool
        if pool is None or self._process != os.getpid():
            pool = self._started()
        try:
            return pool.submit(function, *arguments)
        except RuntimeError:
            # another thread has closed the streams meanwhile
            if self._closed:
                raise _closed() from None
            raise

    # an exception on the way into or out of the lock would leave it held
    @uninterrupted()
    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise _closed()
            if self._pool is None or self._process != os.getpid():
                self._pool = ThreadPoolExecutor(
                    self.count, "tvmconv-stream", _bind_next, (deque(self.bindings),)
                )
                self._process = os.getpid()
            return self._pool

    def close(self) -> None:
        """Run the calls that wait, and end the threads."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.shutdown()


def _bind_next(bindings: deque[tuple[int, ...]]) -> None:
    if bindings:
        bind_thread(bindings.popleft())


class Streams:
    """Streams of a model, which run the calls of a queue, each stream one at a time.

    Made by ``streams`` of a model. As a context manager it ends by :meth:`close`.
    """

    def __init__(self, run: Callable[..., Outputs], threads: StreamThreads) -> None:
        self._run = run
        self._threads = threads

    @property
    def count(self) -> int:
        """Calls that run at a time."""
        return self._threads.count

    @property
    def cpus(self) -> tuple[tuple[int, ...], ...]:
        """The CPUs of each stream; empty if streams are not bound."""
        return self._threads.bindings

    def submit(self, *arguments: Any) -> Future[Outputs]:
        """Queue a call with the arguments of ``run``; see ``submit`` of a model."""
        return self._threads.submit(self._run, *arguments)

    def close(self) -> None:
        """Run the calls that wait, and end the streams."""
        self._threads.close()

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        bound = f", cpus={self.cpus}" if self.cpus else ""
        return f"Streams(count={self.count}{bound})"


def plan_streams(
    count: int | None, threads: int, cpus: Sequence[int], bound: bool, on_gpu: bool
) -> StreamThreads:
    """The threads of ``count`` streams; by default of as many as the CPUs suffice for.

    ``threads`` is the number for one call. If ``bound``, each stream gets the next CPUs of the
    list, one for each of its threads.
    """
    threads = max(1, min(threads, len(cpus)))
    if count is None:
        count = 1 if on_gpu else max(1, len(cpus) // threads)
    else:
        count = whole(count, "count", high=MOST_STREAMS)
    if not bound:
        return StreamThreads(count)
    return StreamThreads(
        count,
        [
            tuple(cpus[(first + i) % len(cpus)] for i in range(threads))
            for first in range(0, count * threads, threads)
        ],
    )


def _closed() -> InputError:
    return InputError("these streams are closed. Make others by streams().")


def no_such_cpus(cpus: object) -> InputError:
    """The error for CPUs that are not a text of CPUs that this process may use."""
    return InputError(
        f"cpus={shown(cpus)} names no CPU that this process may use. Expected a list such as "
        "'0-3,8', 'performance', or 'node:' with a number."
    )
