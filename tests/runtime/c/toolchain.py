"""Compilers and checkers of this machine, and the toy model built with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RUNTIME = ROOT / "tvmconv" / "runtime" / "c"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-g")


def tool(*names: str) -> str:
    """The first of the named programs that is installed; without one the test is skipped."""
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"needs {' or '.join(names)}")


def compiler() -> str:
    return tool("gcc", "clang", "cc")


def run(
    *command: str | Path, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
        check=False,
    )


def compile_c(driver: str, output: Path, sources: Sequence[Path], *flags: str) -> Path:
    done = run(driver, *STRICT, *flags, f"-I{RUNTIME}", "-o", output, *sources, "-lpthread", "-lm")
    assert done.returncode == 0, done.stderr
    return output


def toy(driver: str, output: Path, *flags: str) -> Path:
    """The toy model, linked as models are: only the interface is visible."""
    sources = [HERE / "model.c", HERE / "kernels.c", RUNTIME / "runtime.c"]
    script = f"-Wl,--version-script={RUNTIME / 'exports.map'}"
    return compile_c(driver, output, sources, "-shared", "-fPIC", script, *flags)


def checker(driver: str, output: Path, *flags: str) -> Path:
    return compile_c(driver, output, [HERE / "check.c"], *flags, "-ldl")
