"""The emulated GPU of tests: a stand-in for nvcc and a driver that runs what it makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvmconv.emulation.nvcc import write_toolkit

needs_emulator = pytest.mark.skipif(
    shutil.which("g++") is None or shutil.which("cc") is None, reason="needs cc and g++"
)


class EmulatedGpu:
    """The environment in which ``cuda`` targets run on the processor, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, **write_toolkit(folder)}

    def python(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with some arguments."""
        return subprocess.run(
            [sys.executable, *map(str, words)],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def tvmconv(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.python("-m", "tvmconv", *words, **variables)
