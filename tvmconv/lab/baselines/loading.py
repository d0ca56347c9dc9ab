"""A model's own file, loaded in this process and called once: its time and memory, on Linux."""

from __future__ import annotations

import ctypes
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

from .case import Case, Session, Unsupported


def export(adapter: ModuleType, case: Case, threads: int) -> dict[str, Any]:
    """Let an adapter write the file of its library; ``file`` names it.

    Raises :class:`Unsupported` if the adapter knows no such file.
    """
    if not hasattr(adapter, "export"):
        raise Unsupported("the adapter loads no file of its own")
    exported: dict[str, Any] = adapter.export(case, threads)
    return exported


def load(
    adapter: ModuleType, case: Case, threads: int, exported: dict[str, Any]
) -> tuple[Session, dict[str, Any]]:
    """Open an exported model and call it once; the opened model, and times and memory.

    ``load_seconds`` run from before the library's import until the model is ready. ``load_bytes``
    is the growth of the process.
    """
    growth = Growth()
    start = perf_counter()
    session: Session = adapter.open_export(case, threads, exported)
    ready = perf_counter()
    session.run()
    done = perf_counter()
    return session, {
        "load_seconds": ready - start,
        "first_call_seconds": done - ready,
        "load_bytes": growth.peak(),
        "file_bytes": Path(exported["file"]).stat().st_size,
    }


class Growth:
    """The process's memory from its construction on."""

    def __init__(self) -> None:
        try:
            # freed memory of an earlier case must not hide the growth of this one
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            self._start: int | None = _status("VmRSS")
        except (OSError, AttributeError):
            self._start = None

    def peak(self) -> int | None:
        """The largest growth of resident memory in bytes; None if unknown."""
        most = _status("VmHWM")
        return most - self._start if most is not None and self._start is not None else None


def _status(name: str) -> int | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None
