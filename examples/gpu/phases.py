"""The phases of the comparison in the order of their value: benches with time limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SMALL_SUITE = """# layers of every kind, small enough for an emulated GPU
mb2ic8ih9oc40kh3ph1+bias+relu n"3x3"
mb1ic3ih15oc16kh7sh2ph3:nchw+bias+relu n"first"
mb2ic16ih6oc24kh1+bias n"1x1"
g2ic8ih7oc16kh3sh2ph1 n"grouped"
g12ic12ih8oc12kh3ph1+bias+clip(0,6) n"depthwise"
ic12ih7oc20kh3+bias+add+relu n"residual"
"""
# every form of a kernel that schedules have
_FORMS = (
    "all,implicit_gemm:slice=all:split=1:pipeline=all,winograd:mh=all,im2win:steps,"
    "implicit_gemm_mma:precision=all"
)
SUITE_FILE = "small.txt"
# precisions of tensor cores, a phase each
PRECISIONS = ("tf32", "fp16")


@dataclass(frozen=True)
class Phase:
    """One bench.

    Parameters
    ----------
    name
        Name of its file.
    arguments
        Arguments of ``tvmconv bench run``.
    seconds
        Its time limit; it also gets the time that earlier phases leave.
    baselines
        Its other libraries.
    fitted
        Whether the cost model is fitted to it.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: float
    baselines: str = "none"
    fitted: bool = False


def phases(
    kit: Path, small: bool, models: Sequence[Path], only: Sequence[str] = ()
) -> Iterator[Phase]:
    """All phases, or the phases that ``only`` names.

    ``kit`` is the folder of compiled kernels, ``models`` are the networks' ONNX files. ``small``
    layers are for an emulated GPU.
    """
    for phase in _phases(kit, small, models):
        if not only or phase.name in only:
            yield phase


def _phases(kit: Path, small: bool, models: Sequence[Path]) -> Iterator[Phase]:
    quick = ("--rounds", "2", "--seconds", "0.001", "--samples", "2")
    timed = quick if small else ("--rounds", "5", "--seconds", "0.01")
    suite = str(kit / SUITE_FILE)
    layers = suite if small else "dnn12"
    batch = () if small else ("--batch", "128")
    batches = () if small else ("--batch", "1,32,128")
    everyone = "cudnn" if small else "cudnn,im2col_cublas,torch"
    arguments = ("--suite", layers, *batch, *timed, "--memory")
    yield Phase("dnn12", arguments, 105, everyone, fitted=True)
    network = suite if small else "resnet50"
    arguments = ("--suite", network, *batches, *timed, "--tuning-log", "none")
    yield Phase("resnet50-layers", arguments, 85, "cudnn", fitted=True)
    both = () if small else ("--batch", "1,32")
    arguments = (*map(str, models), *both, *timed)
    yield Phase("networks", arguments, 65, "torch,onnxruntime")
    yield Phase("correct", ("--suite", suite, *quick, "--algorithms", _FORMS), 20)
    steps = ("--suite", layers, *batch, *timed, "--algorithms", "im2win:steps,im2col", "--stages")
    yield Phase("im2win-steps", steps, 45)
    for precision in PRECISIONS:
        mma = ("--algorithms", "implicit_gemm_mma", "--precision", precision)
        yield Phase(precision, ("--suite", layers, *batch, *timed, *mma), 20, "cudnn")
        rounded = ("--tuning-log", "none", "--precision", precision)
        yield Phase(
            f"resnet50-{precision}", ("--suite", network, *batches, *timed, *rounded), 25, "cudnn"
        )
    # its compiler takes longer than all measurements of the networks
    yield Phase("torch-compile", arguments, 45, "torch_compile")


def command(phase: Phase, kit: Path, target: str, device: int, *more: str) -> list[str]:
    """The bench of a phase, on one of the driver's GPUs."""
    given = ["--target", target, "--kernels", str(kit), "--baselines", phase.baselines]
    given += ["--device", str(device)]
    return [sys.executable, "-m", "tvmconv", "bench", "run", *phase.arguments, *given, *more]


def environment() -> dict[str, str]:
    """Variables of benches: this package, and no tuning log except the log of the build."""
    from tvmconv.measuring.processes import package_path

    return {
        **os.environ,
        "PYTHONPATH": package_path(),
        "TVMCONV_TUNING_LOGS": "none",
        "PYTHONUNBUFFERED": "1",
    }


def emulated(folder: Path) -> dict[str, str]:
    """Variables of a GPU that the CPU emulates."""
    from tvmconv.lab.emulation.nvcc import write_toolkit

    return write_toolkit(folder)
