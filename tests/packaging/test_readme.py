"""Every fenced block of the README runs unchanged, in the order a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging import pages

README = (pages.ROOT / "README.md").read_text()
BLOCKS = [(block.language, block.text) for block in pages.blocks(pages.ROOT / "README.md")]
# The changes that make a command short. .ci/run and the slow test below execute the full forms of
# the two set-up commands. tests/networks writes the networks by the command of the README.
_SHORTENED = {
    "sh examples/quickstart.sh\n": "sh examples/quickstart.sh --network squeezenet1_1 --image 64\n",
    "sh tests/run.sh\n": "sh tests/run.sh -n 0 tests/core/test_config.py\n",
    "examples.networks resnet18 -o": "tests.small_network",
    # tests/packaging/test_wheel.py installs the package
    "pip install '.[peers]'\n": "test -f pyproject.toml\n",
    "ic64ih28oc64kh3ph1 --algorithms all:": "ic16ih6oc16kh3ph1 --algorithms im2win:",
    "--rounds 2": "--rounds 1 --seconds 0.02",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A folder that looks like the repository and in which commands may write files."""
    return pages.checkout(tmp_path_factory.mktemp("checkout"))


def _run(command: list[str], checkout: Path) -> str:
    done = subprocess.run(
        command,
        cwd=checkout,
        env=pages.environment(checkout),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_blocks_are_commands_or_python():
    assert {language for language, _ in BLOCKS} <= {"sh", "python", "text"}
    assert all(whole in README for whole in _SHORTENED)


# .ci/run runs it each time, next to the wheels
@pytest.mark.slow
@pytest.mark.any_processor
def test_every_block_runs(checkout):
    first = [language for language, _ in BLOCKS].index("python")
    for language, text in BLOCKS[:first]:
        assert language == "sh"
        _run(["sh", "-ec", _shortened(text)], checkout)
    # later Python blocks go on where the earlier ones stopped
    program = "".join(text for language, text in BLOCKS if language == "python")
    _run([sys.executable, "-c", program], checkout)
    for language, text in BLOCKS[first:]:
        if language == "sh":
            _run(["sh", "-ec", _shortened(text)], checkout)


def _shortened(text: str) -> str:
    for whole, short in _SHORTENED.items():
        text = text.replace(whole, short)
    return text


@pytest.mark.slow
def test_quickstart_in_full(checkout):
    told = _run(["sh", "examples/quickstart.sh"], checkout)
    for word in ("onnxruntime", "rounds", "% peak", "same to the last bit", "bundle"):
        assert word in told
    assert "GFLOP/s" in (checkout / "quickstart/resnet50.txt").read_text()
