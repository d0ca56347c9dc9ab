"""Settings that every test shares."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tvmconv.machines.host import host_features
from tvmconv.machines.x86 import MACHINES
from tvmconv.runtime.threads import set_environment_defaults

# A test may let TVM make the calling thread's pool. Left to itself TVM then binds that thread
# to one CPU, and every later test of the process would have this one CPU only.
set_environment_defaults()

# what this user tuned or measured, or a new shipped record, must not change what a test of
# something else sees
os.environ.setdefault("TVMCONV_TUNING_LOGS", "none")
os.environ.setdefault("TVMCONV_MACHINES", "none")

# Examples that compile a kernel take tenths of a second on a slow core, so a per-example
# deadline would only measure the machine. CI repeats the same examples on every run.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this processor cannot execute."""
    if host_features() >= set(MACHINES["x86-64-v4"].features):
        return
    skip = pytest.mark.skip(reason="this processor has no AVX-512")
    for item in items:
        if item.get_closest_marker("avx512"):
            item.add_marker(skip)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run rewrite the files that lowered forms are compared with."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a file under ``golden/`` beside the test."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), f"{name} changed; --update-golden accepts the new form"

    return compare
