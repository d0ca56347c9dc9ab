"""Ctrl-C outside of what cannot be cut in two.

An import that was left in the middle cannot be repeated: TVM has entered half of its types and
functions into tables for good. A pass or a callback of TVM that is left in the middle unwinds
C++ code that knows nothing of ``KeyboardInterrupt``. While such work runs in the main thread the
signal is only noted; its handler, Python's or the program's own, is called at the next
:func:`checkpoint` or at the end.

The prover Z3, a part of TVM's compiler library that schedules ask about bounds of loops, takes
the signal for itself while it works (``signal(SIGINT, ...)`` in C): it would give up its proof,
so that other code comes out, and nobody would hear of the signal. The library is kept from that.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

from .linkage import redirect

Handler = Callable[[int, FrameType | None], Any]

# packages that are imported whole
_PACKAGES = ("tvmconv", "tvm", "tvm_ffi")

# the compiler library, and the module of TVM that loads it
_COMPILER, _LOADS_COMPILER = "libtvm_compiler.so", "tvm.base"


class Stopped(Exception):
    """Ends the work at a checkpoint; what the signal's handler raised follows at its end.

    Unlike ``KeyboardInterrupt`` it is an ``Exception``, which passes through TVM's C++ code.
    """


class _Noted:
    """What is known of the signal; the main thread's own, as handlers are."""

    depth = 0
    handler: Handler | None = None
    frame: FrameType | None = None
    pending = False
    raised: BaseException | None = None

    def note(self, number: int, frame: FrameType | None) -> None:
        self.pending, self.frame = True, frame

    def deliver(self) -> None:
        """Call the handler if the signal has come."""
        if self.pending and self.handler is not None:
            self.pending, frame, self.frame = False, self.frame, None
            self.handler(signal.SIGINT, frame)


_noted = _Noted()

# modules whose import the signal ended after their code had run
_executed: dict[str, ModuleType] = {}


class uninterrupted(ContextDecorator):
    """Work that Ctrl-C leaves at its checkpoints or its end; a context manager and a decorator.

    It does nothing in other threads, in which no handler runs, and where the signal has no
    handler in Python.
    """

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if _noted.depth == 0:
            handler = signal.getsignal(signal.SIGINT)
            if not callable(handler):
                return
            _noted.handler, _noted.pending, _noted.raised = handler, False, None
            signal.signal(signal.SIGINT, _noted.note)
        _noted.depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread() or _noted.depth == 0:
            return
        _noted.depth -= 1
        if _noted.depth:
            return
        raised, _noted.raised = _noted.raised, None
        if signal.getsignal(signal.SIGINT) == _noted.note:
            signal.signal(signal.SIGINT, _noted.handler)
        if raised is not None:
            _noted.pending = False
            raise raised from None
        _noted.deliver()


def checkpoint() -> None:
    """A place at which :class:`uninterrupted` work may end.

    Raises
    ------
    Stopped
        If the signal has come and its handler raises an exception, which the outermost
        ``uninterrupted`` raises in its place.
    """
    if _noted.pending and threading.current_thread() is threading.main_thread():
        try:
            _noted.deliver()
        except BaseException as error:
            _noted.raised = error
            raise Stopped("stopped by a signal") from None


class _WholeLoader(Loader):
    """Runs a module's code uninterrupted, and leaves the module to its own loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        # for those who only look a module up: its source, its code, its resources
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module if its code has run already, otherwise the loader's."""
        return _executed.get(spec.name) or self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the code, once."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if _executed.pop(module.__name__, None) is module:
            return
        with uninterrupted():
            self._loader.exec_module(module)
            if module.__name__ == _LOADS_COMPILER:
                _keep_signal()
            _executed[module.__name__] = module
        # not reached where the signal's exception comes out of the guard: the import system
        # then forgets the module, and the next import must not run its code again
        _executed.pop(module.__name__, None)


class _WholeImports(MetaPathFinder):
    """Finds modules as the other finders do, and has them executed by :class:`_WholeLoader`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in _PACKAGES:
            return None
        for finder in sys.meta_path:
            # pygal, for one, has a finder of the form that Python 3.4 replaced
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _WholeLoader(spec.loader)
                return spec
        return None


def guard_imports() -> None:
    """Let nobody's import of TVM be interrupted halfway from now on, and Z3 take no signal."""
    if not any(isinstance(finder, _WholeImports) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WholeImports())
    if _LOADS_COMPILER in sys.modules:
        _keep_signal()


def _keep_signal() -> None:
    """Have the compiler library call ``abs`` where it would call ``signal``, as Z3 alone does.

    Z3 has no other switch that TVM lets through. It is given the signal's number for the handler
    that was there before, and gives it back in the same way when it is done.
    """
    # where the library cannot be changed, Z3 goes on as it does in every other program
    with suppress(OSError):
        redirect(_COMPILER, "signal", ctypes.CDLL(None).abs)
