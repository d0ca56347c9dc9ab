"""Calls of a model from a queue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.interrupts import uninterrupted
from . import forks
from .outputs import Outputs

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .streams import Streams, StreamThreads


class Submitting(ABC):
    """A model that calls can be submitted to."""

    def __init__(self) -> None:
        self._streams_lock = forks.Lock()
        self._streams: StreamThreads | None = None

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of one call."""

    @abstractmethod
    def run(self, *arguments: Any) -> Outputs:
        """Compute the outputs."""

    @abstractmethod
    def _stream_cpus(self, cpus: str | None) -> tuple[Sequence[int], bool]:
        """CPUs for the threads of streams, and whether kernels run on a GPU.

        Without CPUs if ``cpus`` does not name any. Without ``cpus``, all that may be used.
        """

    def submit(self, *arguments: Any) -> Future[Outputs]:
        """Queue a call for one of several streams, which run calls at the same time.

        There are as many streams as the CPUs suffice for; :meth:`streams` makes another number.

        Parameters
        ----------
        arguments
            As for :meth:`run`, in the CPU's memory. Do not change the arrays before the call has
            ended.

        Returns
        -------
        Future
            A ``concurrent.futures.Future`` of the outputs. Errors of the call are in it, too. It
            belongs to this process: a forked child waits for futures of its own calls only.
        """
        threads = self._streams or self._default_streams()
        return threads.submit(self.run, *arguments)

    def streams(self, count: int | None = None, *, cpus: str | None = None) -> Streams:
        """Streams of their own number and CPUs.

        Parameters
        ----------
        count
            Calls that run at a time. The default is 1 on a GPU, else the number of CPUs divided by
            :attr:`threads`. It counts the CPUs of ``cpus``, or all that this process may use by
            its affinity, the quota of its container and ``TVMCONV_NUM_THREADS``.
        cpus
            CPUs to bind streams to: a list such as ``"0-3,8"``, ``"performance"`` for performance
            cores, or ``"node:1"`` for a NUMA node. Each stream gets the next ones, one for each of
            its threads, from the start again after the last.

        Returns
        -------
        Streams
            With a method ``submit``. Call ``close``, or use it in a ``with`` statement: both wait
            for the calls in the queue.

        Raises
        ------
        InputError
            If ``count`` is out of range, or ``cpus`` names no CPU that this process may use.
        """
        from .streams import Streams

        return Streams(self.run, self._stream_threads(count, cpus))

    @uninterrupted()
    def _default_streams(self) -> StreamThreads:
        planned = self._stream_threads(None, None)
        with self._streams_lock:
            self._streams = self._streams or planned
            return self._streams

    def _stream_threads(self, count: int | None, cpus: str | None) -> StreamThreads:
        from .streams import no_such_cpus, plan_streams

        if cpus is not None and not isinstance(cpus, str):
            raise no_such_cpus(cpus)
        found, on_gpu = self._stream_cpus(cpus)
        if cpus is not None and not found:
            raise no_such_cpus(cpus)
        return plan_streams(count, self.threads, found, cpus is not None, on_gpu)
