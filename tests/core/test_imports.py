"""TVM is imported without torch in tvmconv's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.small_network import small_network

pytestmark = pytest.mark.any_processor
ROOT = Path(__file__).parents[2]


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter where torch is a file that says so when it is imported."""
    (folder / "torch.py").write_text("import sys\nsys.stderr.write('torch is imported')\n")
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_do_without_torch(tmp_path: Path) -> None:
    onnx.save(small_network(), tmp_path / "model.onnx")
    done = python(tmp_path, "-m", "tvmconv", "explain", "model.onnx", "--target", "x86-64-v3")
    assert (done.returncode, done.stderr) == (0, "")


def test_others_get_torch_whenever_they_ask(tmp_path: Path) -> None:
    left_out = "from tvmconv.core.imports import import_tvm_without_torch as f; f(); "
    done = python(tmp_path, "-c", left_out + "import tvm, sys; assert 'torch' not in sys.modules")
    assert (done.returncode, done.stderr) == (0, "")
    done = python(tmp_path, "-c", left_out + "import tvm, torch")
    assert (done.returncode, done.stderr) == (0, "torch is imported")
