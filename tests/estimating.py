"""System requirements of the tests of estimates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tvmconv.lab.baselines
from tests.emulating import ARM
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.tools import counting_emulator, llvm_tool


def _missing() -> str:
    try:
        counting_emulator(ARM)
        for name in ("llvm-mca", "llvm-mc"):
            llvm_tool(name)
    except ArtifactError as error:
        return str(error)
    return ""


_MISSING = _missing()
needs_estimation = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)

# an interpreter of unpacked packages, see docs/notes/arm-estimated.md
PEER_PYTHON = os.environ.get("TVMCONV_BASELINE_PYTHON", "")
needs_peers = pytest.mark.skipif(
    not PEER_PYTHON,
    reason="TVMCONV_BASELINE_PYTHON names no Python for 64-bit Arm (docs/notes/arm-estimated.md)",
)


def answers(adapter: str | Path, folders: list[Path], result: Path) -> list[dict[str, Any]]:
    """The output of the program for counting, run on this processor without counting."""
    program = Path(tvmconv.lab.baselines.__file__).with_name("counted.py")
    words = [sys.executable, str(program), str(adapter), str(result), *map(str, folders)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return [json.loads(line) for line in result.read_text().splitlines()]
