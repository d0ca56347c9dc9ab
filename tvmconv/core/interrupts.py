"""Ctrl-C waits until TVM is in a state that can be left.

An exception inside an import of TVM, or inside a function that TVM's C++ code calls, breaks every
later build. While the main thread works with TVM, the handler of SIGINT therefore only takes a
note. The program's own handler is called at the next :func:`checkpoint`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class _Noted:
    """State of the signal. Only the main thread has handlers, so one object is enough."""

    depth = 0
    handler: Handler | None = None
    frame: FrameType | None = None
    pending = False

    def note(self, number: int, frame: FrameType | None) -> None:
        self.pending, self.frame = True, frame

    def deliver(self) -> None:
        """Call the program's handler if the signal has come."""
        if self.pending and self.handler is not None:
            self.pending, frame, self.frame = False, self.frame, None
            self.handler(signal.SIGINT, frame)


_noted = _Noted()


class uninterrupted(ContextDecorator):
    """Work that Ctrl-C ends at a checkpoint or at the end; a context manager and a decorator.

    It does nothing in other threads, in which no handler runs, and where the signal has no
    handler in Python.
    """

    def __enter__(self) -> None:
        if not _in_main_thread():
            return
        if _noted.depth == 0:
            handler = signal.getsignal(signal.SIGINT)
            if not callable(handler):
                return
            _noted.handler, _noted.pending = handler, False
            signal.signal(signal.SIGINT, _noted.note)
        _noted.depth += 1

    def __exit__(self, *_: object) -> None:
        if not _in_main_thread() or _noted.depth == 0:
            return
        _noted.depth -= 1
        if _noted.depth:
            return
        if signal.getsignal(signal.SIGINT) == _noted.note:
            signal.signal(signal.SIGINT, _noted.handler)
        _noted.deliver()


def checkpoint() -> None:
    """A place at which work may end: the handler of a signal that came is called here.

    The prover Z3 inside TVM sets its own handler for each proof, and restores the old one by
    ``signal(2)``. System calls then continue after Ctrl-C, and Python could no longer interrupt
    ``thread.join()``.
    """
    signal.siginterrupt(signal.SIGINT, True)
    if _noted.depth and _in_main_thread():
        _noted.deliver()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def stoppable(progress: Callable[[str, int, int], None] | None) -> Callable[[str, int, int], None]:
    """A function that Ctrl-C ends; it calls ``progress(stage, done, total)``."""

    def report(stage: str, done: int, total: int) -> None:
        checkpoint()
        if progress is not None:
            progress(stage, done, total)

    return report
