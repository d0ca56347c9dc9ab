"""The quickstart says what it does without anything installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import networks, quickstart

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [["sh", "examples/quickstart.sh", "--help"], [sys.executable, "-S", quickstart.__file__, "-h"]],
    ids=["sh", "python"],
)
def test_help_needs_no_environment(command: list[str], tmp_path: Path) -> None:
    """``-S`` leaves out all packages; nothing is made in the place of the environment."""
    venv = tmp_path / "venv"
    environment = {"PATH": "/usr/bin:/bin", "TVMCONV_VENV": str(venv), "PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    for word in ("onnxruntime", "--network", "--threads", "--folder", "TVMCONV_VENV"):
        assert word in done.stdout
    assert not venv.exists()


def test_networks_of_the_help_are_those_that_exist() -> None:
    assert tuple(networks.NETWORKS) == quickstart.NETWORKS
