"""The whole comparison on a machine with a GPU, in one command of less than eight minutes.

    python -m examples.gpu prepare KIT      # here: TVM and nvcc, no GPU
    python -m examples.gpu measure KIT -o RESULTS   # there: a GPU and torch; neither TVM nor nvcc
    python -m examples.gpu measure KIT -o RESULTS --small   # here: a check on the emulated driver

``KIT`` holds compiled kernels, and the models that ``--models`` names, which one may want below the
64 MiB that a lent machine takes. Every phase is a ``tvmconv bench`` that is useful by itself, ends
when its time is up, and leaves its file in ``RESULTS``; ``summary.json`` says what was done, what
was left out, and why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TOTAL_SECONDS = 460.0
_FITTED = ("dnn12", "resnet50-layers")
_SMALL_SUITE = """# layers of every kind, small enough for an emulated GPU
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


@dataclass(frozen=True)
class Phase:
    """One bench.

    Parameters
    ----------
    name
        Of its file.
    words
        What follows ``tvmconv bench``.
    seconds
        When it is ended, if the whole does not end before.
    peers
        Libraries of it.
    """

    name: str
    words: tuple[str, ...]
    seconds: float
    peers: str = "none"


def phases(kit: Path, small: bool, models: Sequence[Path], target: str) -> Iterator[Phase]:
    """What is measured, the most wanted first."""
    quick = ("--rounds", "2", "--seconds", "0.001", "--samples", "2")
    timed = quick if small else ("--rounds", "5", "--seconds", "0.01")
    suite = str(kit / "small.txt")
    layers = suite if small else "dnn12"
    batch = () if small else ("--batch", "128")
    batches = () if small else ("--batch", "1,32,128")
    yield Phase("correct", ("--suite", suite, *quick, "--algorithms", _FORMS), 60)
    everyone = "cudnn" if small else "cudnn,im2col_cublas,torch"
    yield Phase("dnn12", ("--suite", layers, *batch, *timed, "--memory"), 120, everyone)
    network = suite if small else "resnet50"
    chosen = ("--suite", network, *batches, *timed, "--log", "none")
    yield Phase("resnet50-layers", chosen, 170, "cudnn")
    steps = ("--suite", layers, *batch, *timed, "--algorithms", "im2win:steps,im2col", "--stages")
    yield Phase("im2win-steps", steps, 70)
    mma = ("--suite", layers, *batch, *timed, "--algorithms", "implicit_gemm_mma")
    yield Phase("tf32", mma, 50, "cudnn_tf32")
    if models:
        both = () if small else ("--batch", "1,32")
        words = (*map(str, models), *both, *timed)
        yield Phase("networks", words, 150, "torch,torch_compile,onnxruntime")


def command(phase: Phase, kit: Path, target: str, *more: str) -> list[str]:
    """The bench of a phase."""
    given = ["--target", target, "--kernels", str(kit), "--peers", phase.peers]
    return [sys.executable, "-m", "tvmconv", "bench", *phase.words, *given, *more]


def prepare(kit: Path, small: bool, models: Sequence[Path], target: str) -> int:
    """Compile what all phases need; nothing is measured."""
    kit.mkdir(parents=True, exist_ok=True)
    (kit / "small.txt").write_text(_SMALL_SUITE)
    failed = []
    for phase in phases(kit, small, models, target):
        print(f"== {phase.name}", flush=True)
        done = subprocess.run(
            command(phase, kit, target, "--compile-only", "--json"),
            env=environment(),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            failed.append(phase.name)
    size = sum(path.stat().st_size for path in kit.rglob("*") if path.is_file())
    print(f"{kit}: {size / 2**20:.1f} MiB" + f", failed: {', '.join(failed)}" * bool(failed))
    return 1 if failed else 0


def environment() -> dict[str, str]:
    """For benches: this tree, and no tuning log but what the kit was compiled with."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TVMCONV_TUNING_LOGS": "none",
        "PYTHONUNBUFFERED": "1",
    }


def measure(
    kit: Path, results: Path, small: bool, models: Sequence[Path], target: str, total: float
) -> int:
    """Run all phases for which there is time, then fit the cost model."""
    results.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    state = environment()
    if small:
        state |= emulated(kit / "emulated")
    summary = []
    for phase in phases(kit, small, models, target):
        path = results / f"{phase.name}.json.gz"
        left = total - (time.monotonic() - start)
        if left < 10:
            summary.append({"phase": phase.name, "status": "left out: the time was up"})
            continue
        print(f"== {phase.name}, {left:.0f} s left", flush=True)
        began = time.monotonic()
        limit = left if small else min(phase.seconds, left)
        status, said = run(command(phase, kit, target, "--save", str(path)), state, limit)
        row = {"phase": phase.name, "status": status, "seconds": time.monotonic() - began}
        if path.is_file():
            row |= {"file": path.name, "size": path.stat().st_size}
        summary.append(row)
        print("\n".join(said.splitlines()[-12:]), flush=True)
    # tiny layers say little of a model of large ones
    saved = [results / row["file"] for row in summary if "file" in row and row["phase"] in _FITTED]
    shown = [word for path in saved for word in ("--show", str(path))]
    if shown:
        fit = ["--fit", "--save", str(results / "fit.json")]
        words = [sys.executable, "-m", "tvmconv", "bench", *shown, *fit]
        status, said = run(words, state, 60)
        summary.append({"phase": "fit", "status": status})
        print("\n".join(said.splitlines()[:12]))
    (results / "summary.json").write_text(json.dumps(summary, indent=1))
    for row in summary:
        print(f"{row['phase']:16} {row['status']}  {row.get('seconds', 0):.0f} s")
    return 0 if all(row["status"] == "done" for row in summary) else 1


def run(words: Sequence[str], state: dict[str, str], seconds: float) -> tuple[str, str]:
    """How a bench ended, and what it said; what was saved until its time was up stays."""
    process = subprocess.Popen(
        words, env=state, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        said, _ = process.communicate()
        return "ended: its time was up, cases that were done are saved", said
    return ("done" if process.returncode == 0 else f"failed ({process.returncode})"), said


def emulated(folder: Path) -> dict[str, str]:
    """A GPU that the processor emulates, where there is none."""
    from tvmconv.emulation.nvcc import write_toolkit

    return write_toolkit(folder)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.gpu", description=__doc__)
    parser.add_argument("action", choices=("prepare", "measure"))
    parser.add_argument("kit", type=Path, help="folder of compiled kernels")
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu-results"))
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="ONNX files")
    parser.add_argument("--target", default="cuda:sm_90", help="what kernels are compiled for")
    parser.add_argument("--seconds", type=float, default=_TOTAL_SECONDS, help="for all phases")
    parser.add_argument(
        "--small", action="store_true", help="tiny layers on an emulated GPU: a check without one"
    )
    given = parser.parse_args()
    kit = given.kit.resolve()
    if given.action == "prepare":
        if given.small:
            os.environ.update(emulated(kit / "emulated"))
        return prepare(kit, given.small, given.models, given.target)
    total = 3600.0 if given.small and given.seconds == _TOTAL_SECONDS else given.seconds
    return measure(kit, given.output, given.small, given.models, given.target, total)


if __name__ == "__main__":
    sys.exit(main())
