"""The quickstart says what it does without anything installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import networks, quickstart
from examples.quickstart_summary import Comparison

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


def test_it_says_how_fast_and_how_sure() -> None:
    ours, theirs = (1e-3,) * 5, (1.9e-3, 2e-3, 2e-3, 2e-3, 2.1e-3)
    quiet = Comparison(ours, theirs, 0.1)
    assert str(quiet) == "2.00x as fast as onnxruntime; best calls 1 ms against 1.9 ms"
    assert quiet.noise == ""
    assert "used 1.2 CPUs" in Comparison(ours, theirs, 1.2).noise
    assert "rounds differ" in Comparison(ours, (1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3), 0.0).noise
    equal = Comparison(ours, (0.9e-3, 0.9e-3, 1e-3, 1.1e-3, 1.1e-3), 0.0)
    assert str(equal).startswith("about as fast as onnxruntime (1.00x)")
