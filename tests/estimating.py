"""What tests of estimates need of the system."""

from __future__ import annotations

import pytest

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


needs_estimation = pytest.mark.skipif(bool(_missing()), reason=_missing())
