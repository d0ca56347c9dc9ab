"""Checks of a machine before anything is measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec

# every bench needs these
NEEDED = ("numpy", "onnx", "typer", "rich", "psutil", "filelock")
# rows that are absent without a package
USEFUL = {
    "torch": "rows cudnn, im2col_cublas, torch and torch_compile are absent, and with them ratios",
    "onnxruntime": "networks have nothing to be compared with, and are left out",
}
_GPU = """
import sys
from tvmconv.measuring.gpu.state import gpu_state
from tvmconv.cli.gpus import take_gpu
from tvmconv.core.errors import TvmconvError
try:
    take_gpu(int(sys.argv[1]), sys.argv[2])
    found = gpu_state(sys.argv[2])
    print(f"{found['name']}, its driver knows CUDA up to {found['driver_cuda']}")
except TvmconvError as error:
    sys.exit(str(error))
"""
_TORCH = """
import torch
gpu = torch.cuda.is_available()
cudnn = torch.backends.cudnn.version() if gpu else None
print(f"torch {torch.__version__}, cuDNN {cudnn}" if gpu else
      f"torch {torch.__version__} sees no GPU: its rows are of no use")
"""
_SECONDS = 60.0


def there(name: str) -> bool:
    """Whether a package can be found, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def missing_packages() -> list[str]:
    """One line, where packages are missing that every measurement needs."""
    lacking = [name for name in NEEDED if not there(name)]
    if not lacking:
        return []
    python = f"{sys.executable} (Python {sys.version.split()[0]})"
    return [f"{python} lacks {', '.join(lacking)}: nothing is measured without; install them"]


def find_gpu(device: int, target: str, state: Mapping[str, str]) -> tuple[bool, str]:
    """Whether a GPU runs kernels of a target, and its name, or why none does.

    It runs in a process of its own, because ``state`` selects the driver.
    """
    arguments = [sys.executable, "-c", _GPU, str(device), target]
    done = subprocess.run(arguments, env=dict(state), capture_output=True, text=True, check=False)
    return done.returncode == 0, (done.stdout or done.stderr).strip()


def baselines(state: Mapping[str, str]) -> list[str]:
    """The other libraries on this machine, or the rows that are absent without them."""
    lines = []
    for name, loss in USEFUL.items():
        if not there(name):
            lines.append(f"{name} is not there: {loss}")
    if not there("torch"):
        return lines
    arguments = [sys.executable, "-c", _TORCH]
    try:
        done = subprocess.run(
            arguments,
            env=dict(state),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [*lines, f"torch took more than {_SECONDS:.0f} s to be imported"]
    output = done.stdout.strip() or f"torch does not start: {done.stderr.strip()[-300:]}"
    return [*lines, output]
