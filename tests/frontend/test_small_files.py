"""A model file under 1 MB takes at most a minute and 2 GiB to build or to refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model

SECONDS, BYTES = 60, 2 << 30
X = (1, 8, 16, 16)
# builds or refuses a model, and tells by a line what it took: CPU seconds and the largest size
PROGRAM = """
import resource, sys
import tvmconv
try:
    tvmconv.build(sys.argv[1], threads=1, log="none")
    outcome = "built"
except tvmconv.TvmconvError as error:
    outcome = "refused"
used = resource.getrusage(resource.RUSAGE_SELF)
print(outcome, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def chain(length: int, *operators: str) -> onnx.ModelProto:
    nodes, last = [], "x"
    for index in range(length):
        name = operators[index % len(operators)]
        nodes.append(helper.make_node(name, [last], [f"v{index}"], f"n{index}"))
        last = f"v{index}"
    return make_model(nodes, {"x": X}, [last])


def wide(operator: str, count: int, **attributes: int) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", ["x"], [f"v{i}"], f"n{i}") for i in range(count)]
    operands = [f"v{i}" for i in range(count)]
    nodes.append(helper.make_node(operator, operands, ["y"], "wide", **attributes))
    return make_model(nodes, {"x": X}, ["y"])


def convolutions(count: int) -> onnx.ModelProto:
    weight = np.full((8, 8, 3, 3), 0.01, np.float32)
    nodes, last = [], "x"
    for index in range(count):
        operands = [last, "w"]
        nodes.append(helper.make_node("Conv", operands, [f"v{index}"], pads=[1, 1, 1, 1]))
        last = f"v{index}"
    return make_model(nodes, {"x": X}, [last], {"w": weight})


def split(count: int) -> onnx.ModelProto:
    names = [f"v{i}" for i in range(count)]
    node = helper.make_node("Split", ["x"], names, "split", axis=1)
    return make_model([node, helper.make_node("Sum", names, ["y"])], {"x": (1, count, 4, 4)}, ["y"])


def single(
    operator: str, constants: dict[str, np.ndarray], **attributes: object
) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x", *constants], ["y"], "only", **attributes)
    return make_model([node], {"x": X}, ["y"], constants)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "5000 curved operators": lambda: chain(5000, "Relu", "Sigmoid", "Tanh", "Exp"),
    "5000 plain operators": lambda: chain(5000, "Relu", "Neg"),
    "concat of 1000": lambda: wide("Concat", 1000, axis=1),
    "sum of 1000": lambda: wide("Sum", 1000),
    "max of 1000": lambda: wide("Max", 1000),
    "1000 convolutions": lambda: convolutions(1000),
    "split in 1000": lambda: split(1000),
    "normalisation over 10001 channels": lambda: single("LRN", {}, size=10001),
    "tile": lambda: single("Tile", {"r": np.array([1, 1, 1 << 12, 1 << 12])}),
    "expand": lambda: single("Expand", {"s": np.array([1 << 20, 8, 16, 16])}),
    "pad": lambda: single("Pad", {"p": np.array([0, 0, 0, 0, 0, 0, 1 << 14, 1 << 14])}),
    "resize": lambda: single(
        "Resize", {"": np.zeros(0, np.float32), "s": np.array([1, 1, 1e4, 1e4], np.float32)}
    ),
    "gather": lambda: single("Gather", {"i": np.zeros(100_000, np.int64)}, axis=0),
    "pooling": lambda: single(
        "AveragePool", {}, kernel_shape=[5000, 5000], pads=[4999, 4999, 4999, 4999]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_small_file_is_bounded_work(name: str, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(MODELS[name](), path)
    assert path.stat().st_size < 1e6
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome, seconds, size = done.stdout.split()
    assert outcome in ("built", "refused")
    assert float(seconds) < SECONDS
    assert int(size) < BYTES
