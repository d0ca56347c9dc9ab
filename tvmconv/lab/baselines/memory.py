"""How much memory a process takes for one call; Linux only."""

from __future__ import annotations

import ctypes
from pathlib import Path


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
