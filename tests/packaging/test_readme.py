"""Every fenced block of the README runs unchanged, in the order a reader would run them."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
BLOCKS = [(match[1], match[2]) for match in _FENCE.finditer(README)]
# The changes that make a command short. .ci/run and the slow test below execute the full forms of
# the two set-up commands. tests/networks writes the networks by the command of the README.
_SHORTENED = {
    "sh examples/quickstart.sh\n": "sh examples/quickstart.sh --network squeezenet1_1 --image 64\n",
    "sh tests/run.sh\n": "sh tests/run.sh -n 0 tests/core/test_config.py\n",
    "examples.networks resnet18 -o": "tests.small_network",
    "56oc64kh3ph1+bias+relu --baselines": "56oc64kh3ph1+bias+relu --algorithms direct --baselines",
    "zpdata+bias --baselines": "zpdata+bias --algorithms direct --baselines",
    "all,im2col:mc=0": "direct,im2col:mc=0",
    "--rounds 3\n": "--rounds 1 --seconds 0.02\n",
    "--rounds 2": "--rounds 1 --seconds 0.02",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A folder that looks like the repository and in which commands may write files."""
    folder = tmp_path_factory.mktemp("checkout")
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "quickstart":
            (folder / entry.name).symlink_to(entry)
    # an environment that is already installed: this one
    binaries = folder / ".venv/bin"
    binaries.mkdir(parents=True)
    for name in ("python", "tvmconv"):
        command = f"{sys.executable} -m tvmconv" if name == "tvmconv" else sys.executable
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (binaries / "activate").write_text(f"PATH={binaries}:$PATH\n")
    for extras in ("peers", "test"):
        (folder / f".venv/.tvmconv-{extras}").touch()
    return folder


def _run(command: list[str], checkout: Path) -> str:
    environment = {**os.environ, "PATH": f"{checkout}/.venv/bin:{os.environ['PATH']}"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        command,
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_blocks_are_commands_or_python():
    assert {language for language, _ in BLOCKS} == {"sh", "python", "text"}
    assert all(whole in README for whole in _SHORTENED)


# each is five processes and more; tests/cli/test_bench.py and other lines call the same command
_SELDOM = re.compile(r"^tvmconv bench run --layer .* --baselines onnxruntime.*\n", re.MULTILINE)


@pytest.mark.any_processor
@pytest.mark.parametrize("seldom", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_block_runs(checkout, seldom):
    """In the slow run whole, by default without some benches."""
    first = [language for language, _ in BLOCKS].index("python")
    for language, text in BLOCKS[:first]:
        assert language == "sh"
        _run(["sh", "-ec", _shortened(text, seldom)], checkout)
    # later Python blocks go on where the earlier ones stopped
    program = "".join(text for language, text in BLOCKS if language == "python")
    _run([sys.executable, "-c", program], checkout)
    for language, text in BLOCKS[first:]:
        if language == "sh":
            _run(["sh", "-ec", _shortened(text, seldom)], checkout)


def _shortened(text: str, seldom: bool) -> str:
    text = text if seldom else _SELDOM.sub("", text)
    for whole, short in _SHORTENED.items():
        text = text.replace(whole, short)
    return text


@pytest.mark.slow
def test_quickstart_in_full(checkout):
    told = _run(["sh", "examples/quickstart.sh"], checkout)
    for word in ("onnxruntime", "GFLOP/s", "peak", "same to the last bit"):
        assert word in told


def test_operator_table_is_complete():
    from tvmconv.frontend.convert import CONVERTERS
    from tvmconv.frontend.expand import EXPANDED

    section = README.partition("## What can be imported")[2].partition("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    # options are in parentheses
    names = set(re.findall(r"\b[A-Z]\w+", re.sub(r"\(.*?\)", "", table))) - {"ONNX"}
    # Silu is the importer's own name for x * Sigmoid(x)
    assert names == EXPANDED | set(CONVERTERS) - {"Silu"}
