"""States without a call, and threads that are bound to CPUs."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence

from .binding import State


class _Thread(threading.local):
    is_bound = False


_thread = _Thread()


def bind_thread(cpus: Sequence[int]) -> None:
    """Bind the calling thread, and the states that it makes from now on, to CPUs."""
    os.sched_setaffinity(0, cpus)
    _thread.is_bound = True


class _OwnStates(threading.local):
    def __init__(self) -> None:
        self.states = deque[State]()


class IdleStates:
    """States for the next calls.

    A state has threads, which are bound as the thread that made them. So a bound thread keeps its
    states for itself, and they end with it.
    """

    def __init__(self) -> None:
        # append and pop of a deque are atomic: no lock between concurrent calls
        self._shared = deque[State]()
        self._own = _OwnStates()

    def append(self, state: State) -> None:
        """Keep a state whose call has ended."""
        self._here().append(state)

    def pop(self) -> State:
        """A state for the calling thread; raises :class:`IndexError` if there is none."""
        return self._here().pop()

    def __len__(self) -> int:
        return len(self._here())

    def _here(self) -> deque[State]:
        return self._own.states if _thread.is_bound else self._shared
