"""Compare networks of ONNX files with onnxruntime: refusals, difference, seconds, speed.

    python -m tests.networks.collected FILE ... [--shape NAME:1x3x64x64] [--time]

A row is printed for each file. Open dimensions without a shape are 1 in the first place of an
input, and 64 elsewhere.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

import tvmconv
from tvmconv.cli.values import parse_shapes
from tvmconv.runtime.timing import random_inputs

Array = npt.NDArray[Any]
Shapes = Mapping[str, Sequence[int]]
# rounds of a timing, and the seconds that each library computes in a round
_ROUNDS = 10
_ROUND_SECONDS = 0.02
_OPEN = 64


@dataclass(frozen=True)
class Compared:
    """The outcome of one file.

    Attributes
    ----------
    nodes
        Nodes of the file, without nodes of sub-graphs.
    refused
        Refused operators with the number of their nodes, or the error of a build; empty if the
        model builds.
    difference
        The largest difference of an output, over the largest value of onnxruntime's output.
    spread
        The same between onnxruntime with and without its optimizations, a measure of rounding
        in this network.
    cpu_seconds
        CPU time of the build.
    speedup
        onnxruntime's minimum over tvmconv's on one thread; None if nothing was timed.
    """

    name: str
    nodes: int
    refused: str = ""
    difference: float = 0.0
    spread: float = 0.0
    cpu_seconds: float = 0.0
    speedup: float | None = None
    milliseconds: float | None = None

    def __str__(self) -> str:
        head = f"{self.name:<48} {self.nodes:>5} "
        if self.refused:
            return head + f"refused: {self.refused}"
        text = head + f"{self.difference:.1e} {self.spread:.1e} {self.cpu_seconds:>6.1f} s"
        if self.speedup is None:
            return text
        return text + f" {self.milliseconds:>9.3f} ms {self.speedup:>6.2f}x"


def compare(
    path: Path,
    shapes: Shapes | None = None,
    values: Mapping[str, Any] | None = None,
    timed: bool = False,
) -> Compared:
    """Build a file for one thread, run it on seeded input, and compare it with onnxruntime.

    ``values`` are inputs that are not drawn, such as a sampling rate.
    """
    proto = onnx.load(path)
    name, nodes = f"{path.parent.name}/{path.name}", len(proto.graph.node)
    shapes = {**default_shapes(proto), **(shapes or {})}
    found = tvmconv.check(path, shapes=shapes)
    if found.refused:
        counts = Counter(refusal.operator for refusal in found.refused)
        listed = ", ".join(f"{count} {operator}" for operator, count in counts.items())
        return Compared(name, nodes, f"{listed}: {found.refused[0].error}")
    if found.missing:
        return Compared(name, nodes, found.missing)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tvmconv.build(path, shapes=shapes, threads=1, log="none")
    # compilers run as threads and processes of this one
    model.bind(random_inputs(model.inputs))
    seconds = time.process_time() - start
    inputs = random_inputs(model.inputs)
    for key, value in (values or {}).items():
        if key in inputs:
            inputs[key] = np.broadcast_to(value, inputs[key].shape).astype(inputs[key].dtype)
    session = onnxruntime_session(path)
    expected = _outputs(session, inputs)
    spread = _distance(expected, _outputs(onnxruntime_session(path, optimized=False), inputs))
    difference = _distance(expected, model.run(inputs))
    row = Compared(name, nodes, "", difference, spread, seconds)
    if not timed:
        return row
    ours, theirs = _times(model, session, inputs)
    return replace(row, speedup=theirs / ours, milliseconds=ours * 1e3)


def default_shapes(proto: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs that have open dimensions."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    shapes = {}
    for value in proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in weights and any(dim.dim_value <= 0 for dim in dims):
            shapes[value.name] = tuple(
                dim.dim_value if dim.dim_value > 0 else (_OPEN if axis else 1)
                for axis, dim in enumerate(dims)
            )
    return shapes


def onnxruntime_session(path: Path, optimized: bool = True) -> ort.InferenceSession:
    """A session on one thread."""
    options = ort.SessionOptions()
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _taken(session: ort.InferenceSession) -> list[str]:
    return [value.name for value in session.get_inputs()]


def _outputs(session: ort.InferenceSession, inputs: Mapping[str, Array]) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {key: inputs[key] for key in _taken(session)})
    return dict(zip(names, found, strict=True))


def _distance(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> float:
    return max(_difference(value, actual[name]) for name, value in expected.items())


def _difference(reference: Array, value: Array) -> float:
    """The largest difference over the largest value, or infinity for another shape or type."""
    if reference.shape != value.shape or reference.dtype != value.dtype:
        return float("inf")
    same_nan = reference.dtype.kind == "f"
    if np.array_equal(reference, value, equal_nan=same_nan):
        return 0.0
    wide = reference.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], value.astype(np.float64)[~finite], equal_nan=True):
        return float("inf")
    distance = np.abs(value.astype(np.float64) - wide)[finite].max()
    relative = float(distance / max(np.abs(wide[finite]).max(), np.finfo(np.float32).tiny))
    # onnxruntime rounds every tensor of a float16 network, and tvmconv fewer
    rounding = np.finfo(np.float16).eps if reference.dtype == np.float16 else 0.0
    return max(relative - float(rounding), 0.0)


def _times(
    model: tvmconv.CompiledModel, session: ort.InferenceSession, inputs: Mapping[str, Array]
) -> tuple[float, float]:
    """The minimum seconds of a call of each library, over interleaved rounds."""
    bound = model.bind(dict(inputs))
    feed = {key: inputs[key] for key in _taken(session)}
    best = [float("inf"), float("inf")]
    for _ in range(_ROUNDS):
        for place, call in enumerate((bound, lambda: session.run(None, feed))):
            end = time.perf_counter() + _ROUND_SECONDS
            while (start := time.perf_counter()) < end:
                call()
                best[place] = min(best[place], time.perf_counter() - start)
    return best[0], best[1]


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--value", action="append", default=[], help="NAME=NUMBER of an input")
    options = parser.parse_args()
    values = {name: float(number) for name, number in (v.split("=") for v in options.value)}
    for path in options.files:
        print(compare(path, parse_shapes(options.shape), values, options.time), flush=True)


if __name__ == "__main__":
    main()
