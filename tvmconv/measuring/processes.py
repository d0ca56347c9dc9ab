"""Processes that measure: where they find this package, and how they end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

import tvmconv

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Let the system kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def package_path() -> str:
    """A ``PYTHONPATH`` where a child finds this package, from an installation or a source tree."""
    root = str(Path(tvmconv.__file__).parents[1])
    return os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
