"""Networks built for a GPU, and the emulated driver that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import tvmconv
from tests.asking import HIDDEN
from tvmconv.compile.nvcc import find_nvcc
from tvmconv.compile.nvidia import find_program
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.driver import write_driver
from tvmconv.lab.emulation.nvcc import write_toolkit

TARGET = "cuda:sm_90"
ROOT = Path(__file__).parents[1]
# the first lines of programs that call the model at `path`
CALLING = """
import numpy as np, tvmconv
from tests.device_tensor import DeviceTensor, View, count, enter, new_stream, wait
from tests.device_tensor import begin_capture, end_capture, replay
from tvmconv.core.errors import ArtifactError, InputError
model = tvmconv.load(path)
(name,) = [tensor.name for tensor in model.inputs]
x = np.random.default_rng(0).standard_normal(model.inputs[0].shape, "float32")
right = np.load("right.npy")
kernels = sum(len(call.launches) for call in model.calls)
enter()

def close(result, expected=right):
    return np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()

def refused(text, kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"nobody said {text!r}")
"""
# packages that a machine with a GPU need not have, nor what imports them
_MISSING = """
import sys

NAMES = {"tvm", "tvm_ffi", "xgboost", "tornado", "pygal", "cloudpickle", "platformdirs"}


class Missing:
    def find_spec(self, name, path=None, target=None):
        if (package := name.partition(".")[0]) in NAMES:
            raise ImportError(f"No module named {package!r}")

sys.meta_path.insert(0, Missing())
"""


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except ArtifactError:
        return False
    return True


needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="needs nvcc")
needs_nvdisasm = pytest.mark.skipif(find_program("nvdisasm") is None, reason="needs nvdisasm")
needs_emulator = pytest.mark.skipif(
    shutil.which("g++") is None or shutil.which("cc") is None, reason="needs cc and g++"
)


def plain_environment() -> dict[str, str]:
    """Variables for processes that do the same on every processor: see tests/asking.py."""
    return {**os.environ, "TVMCONV_HIDE_FEATURES": HIDDEN}


class Built:
    """A network built for a GPU, saved, with the driver that emulates its kernels."""

    def __init__(self, folder: Path, model, target: str = TARGET, **options) -> None:
        folder.mkdir()
        self.onnx = model
        self.model = tvmconv.build(model, target, **options)
        self.path = self.model.save(folder / "net.so")
        sources = self.model._library.objects.gpu.sources
        found = write_driver(sources, folder / "driver")
        self.environment = {**plain_environment(), **found, "PYTHONPATH": str(ROOT)}

    def python(self, code: str, **variables: str) -> subprocess.CompletedProcess:
        """Run Python lines on the emulated GPU; ``path`` names the model."""
        return subprocess.run(
            [sys.executable, "-c", f"path = {str(self.path)!r}\n{code}"],
            env={**self.environment, **variables},
            cwd=self.path.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def check_python(self, code: str, **variables: str) -> None:
        """As :meth:`python`, with no exception."""
        done = self.python(code, **variables)
        assert done.returncode == 0, done.stderr

    def run(self, inputs: dict[str, np.ndarray], **variables: str) -> list[np.ndarray]:
        """The results of one call on the emulated GPU."""
        folder = self.path.parent
        np.savez(folder / "in.npz", **inputs)
        self.check_python(
            "import numpy as np, tvmconv\n"
            "np.savez('out.npz', *tvmconv.load(path).run(dict(np.load('in.npz'))))",
            **variables,
        )
        results = np.load(folder / "out.npz")
        return [results[name] for name in results.files]

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(seed)
        return {t.name: generator.standard_normal(t.shape, "float32") for t in self.model.inputs}

    def expected(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        session = onnxruntime.InferenceSession(self.onnx.SerializeToString())
        return session.run(None, inputs)

    def check(self, results: list[np.ndarray], inputs: dict[str, np.ndarray]) -> None:
        for result, right in zip(results, self.expected(inputs), strict=True):
            assert np.abs(result - right).max() <= 1e-5 * np.abs(right).max()


class EmulatedGpu:
    """The environment in which ``cuda`` targets run on the CPU, in processes of their own. It has
    an emulated nvcc, and a driver that runs its output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**plain_environment(), **write_toolkit(folder)}

    def python(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with some arguments."""
        return subprocess.run(
            [sys.executable, *map(str, words)],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def tvmconv(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.python("-m", "tvmconv", *words, **variables)


def bare(gpu: EmulatedGpu, folder: Path) -> dict[str, str]:
    """Variables of a machine that measures and can compile nothing."""
    (folder / "sitecustomize.py").write_text(_MISSING)
    path = os.pathsep.join([str(folder), gpu.environment["PYTHONPATH"]])
    return {"PYTHONPATH": path, "NVCC": "/nonexistent/nvcc"}
