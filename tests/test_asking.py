"""Which tests a second run with features hidden leaves out, and which it must not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAME = {"named", "tool", "told", "marked", "reads", "beside"}
MIXED = """
import os, subprocess, sys, pytest
from tvmconv.machines.gate import lacks
from tvmconv.machines.presets import MACHINES

CHILD = [sys.executable, "-c", ""]

@pytest.fixture(scope="module")
def wide():
    return lacks(MACHINES["x86-64-v4"])

@pytest.fixture(scope="module")
def child(plain):
    return subprocess.run(CHILD).returncode

@pytest.fixture(scope="module")
def plain():
    return 1

def test_named(): assert not lacks(MACHINES["x86-64-v3"])
def test_reads(plain): assert plain
def test_tool(): subprocess.run(["cc", "--version"])
def test_told(): subprocess.run(CHILD, env={**os.environ, "TVMCONV_HIDE_FEATURES": "avx512"})
@pytest.mark.any_processor
def test_marked(): subprocess.run(CHILD)

def test_runs_wide_code(): lacks(MACHINES["x86-64-v4"])
def test_child(): subprocess.run(CHILD)
def test_fork(): os.fork() or os._exit(0)
@pytest.mark.any_processor
def test_first(wide): assert wide is not None
def test_second(wide): assert wide is not None
def test_child_of_a_fixture(child): assert child == 0
def test_failed(): assert False
def test_skipped(): pytest.skip()
"""
NATIVE = """
from functools import cache
from tvmconv.machines.targets import resolve_machine

@cache
def machine(): return resolve_machine("native", 1)

def test_native(): assert machine()
def test_shares(): assert machine()
def test_may_share(): pass
"""
ALONE = """
from tvmconv.machines.targets import resolve_machine

def test_alone(): assert resolve_machine("native", 1)
def test_beside(): pass
"""
HELD = """
HOST = "what this processor has"

def test_host(): assert HOST
"""


def run(folder: Path, *words: str | Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.asking", *words]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment.pop("TVMCONV_HIDE_FEATURES", None)
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [*map(str, command), f"--rootdir={folder}", str(folder)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.any_processor
def test_what_asks_runs_again_and_nothing_else(tmp_path: Path) -> None:
    files = {"mixed": MIXED, "native": NATIVE, "alone": ALONE, "host": HELD}
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    listed = tmp_path / "same.json"
    # in a worker, as in .ci/run
    told = run(tmp_path, "-n", "1", "--same-with-less", listed)
    assert "1 failed, 17 passed, 1 skipped" in told, told
    names = [name.rpartition("::test_")[2] for name in json.loads(listed.read_text())]
    assert set(names) == SAME
    assert len(names) == len(SAME)
    again = run(tmp_path, "-n", "0", "--but", listed)
    assert "1 failed, 11 passed, 1 skipped" in again, again
