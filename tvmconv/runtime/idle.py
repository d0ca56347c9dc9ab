"""States without a call, and the CPUs that the calling thread is bound to."""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Sequence

from .binding import State


class _Thread(threading.local):
    cpus: tuple[int, ...] = ()


_thread = _Thread()


def bind_thread(cpus: Sequence[int]) -> None:
    """Bind the calling thread, and the states that it makes from now on, to CPUs."""
    os.sched_setaffinity(0, cpus)
    _thread.cpus = tuple(cpus)


class IdleStates:
    """States for the next calls.

    A state has threads of its own, and is used on the CPUs on which it was made only.
    """

    def __init__(self) -> None:
        # append and pop of a deque are atomic: no lock between concurrent calls
        self._states: defaultdict[tuple[int, ...], deque[State]] = defaultdict(deque)

    def append(self, state: State) -> None:
        """Keep a state whose call has ended."""
        self._states[_thread.cpus].append(state)

    def pop(self) -> State:
        """A state for the calling thread; raises :class:`IndexError` if there is none."""
        return self._states[_thread.cpus].pop()

    def __len__(self) -> int:
        return len(self._states[_thread.cpus])
