"""A model file under 1 MB takes at most a minute and 2 GiB to build or to refuse."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

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
    operator: str,
    constants: dict[str, np.ndarray],
    shape: tuple[int, ...] = X,
    **attributes: object,
) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x", *constants], ["y"], "only", **attributes)
    given = {name: value for name, value in constants.items() if name}
    return make_model([node], {"x": shape}, ["y"], given)


def computed(operator: str, x: tuple[int, ...], shape: list[int], **attributes: object) -> Any:
    """An operator whose weight of this shape a ConstantOfShape makes."""
    one = numpy_helper.from_array(np.ones(1, np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], "fill", value=one),
        helper.make_node(operator, ["x", "w"], ["y"], "only", **attributes),
    ]
    return make_model(nodes, {"x": x}, ["y"], {"shape": np.array(shape)})


def resized(mode: str, *scales: float) -> onnx.ModelProto:
    constants = {"": np.zeros(0), "s": np.array(scales, np.float32)}
    return single("Resize", constants, (1, 1, 1, 4), mode=mode)


def padded_integers() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=onnx.TensorProto.INT32),
        helper.make_node("Pad", ["i", "p"], ["padded"], "only"),
        helper.make_node("Cast", ["padded"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    widths = np.array([0, 0, 1 << 14, 0, 0, 0, 1 << 14, 1 << 13])
    return make_model(nodes, {"x": (1, 1, 4, 4)}, ["y"], {"p": widths})


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
    "pad of integers": padded_integers,
    "pad by the edge": lambda: single(
        "Pad", {"p": np.array([0] * 7 + [1 << 28])}, (1, 1, 1, 4), mode="edge"
    ),
    "pad by the edge within the budget": lambda: single(
        "Pad", {"p": np.array([0] * 7 + [1 << 24])}, (1, 1, 1, 4), mode="edge"
    ),
    "resize of one axis": lambda: resized("nearest", 1, 1, 1, (1 << 26) + 0.5),
    "linear resize of one axis": lambda: resized("linear", 1, 1, 1, 1 << 26),
    "cubic resize of one axis": lambda: resized("cubic", 1, 1, 1, 1 << 26),
    "cubic resize within the budget": lambda: resized("cubic", 1, 1, 1, 1_000_000),
    "resize of an image row by row": lambda: resized("linear", 1, 1, 1 << 14, 1 << 12),
    "dilated transposed kernel": lambda: computed(
        "ConvTranspose",
        (1, 1, 2, 2),
        [1, 1, 2, 2],
        dilations=[1 << 20] * 2,
        pads=[(1 << 20) - 2] * 2 + [0, 0],
    ),
    "dilated transposed kernel within the budget": lambda: computed(
        "ConvTranspose",
        (1, 1, 2, 2),
        [1, 1, 2, 2],
        dilations=[8000] * 2,
        pads=[7998] * 2 + [0, 0],
    ),
    "strides of a transposed kernel": lambda: computed(
        "ConvTranspose", (1, 16, 2, 2), [16, 16, 2, 2], strides=[4096] * 2, pads=[2048] * 4
    ),
    "transposed kernel": lambda: computed("ConvTranspose", (1, 1, 2, 2), [1, 1, 8000, 8000]),
    "kernel of one channel": lambda: computed("Conv", (1, 1, 8000, 8000), [1, 1, 8000, 8000]),
    "kernel within the bound": lambda: computed("Conv", (1, 1, 2800, 2800), [1, 1, 2800, 2800]),
    "groups of two channels": lambda: computed(
        "Conv", (1, 1 << 20, 1, 1), [1 << 20, 2, 3, 3], group=1 << 19, pads=[1] * 4
    ),
    "depthwise kernels": lambda: computed(
        "Conv", (1, 1 << 20, 1, 1), [1 << 20, 1, 3, 3], group=1 << 20, pads=[1] * 4
    ),
    "pointwise kernels": lambda: computed("Conv", (1, 8000, 1, 1), [8000, 8000, 1, 1]),
    "dilation": lambda: computed(
        "Conv", (1, 16, 64, 64), [16, 16, 3, 3], dilations=[1 << 23] * 2, pads=[1 << 23] * 4
    ),
    "row": lambda: computed("Conv", (1, 1, 1, 1 << 28), [1, 1, 1, 3]),
    "row within the bound": lambda: computed("Conv", (1, 1, 1, 1 << 26), [1, 1, 1, 3]),
    "product": lambda: computed("MatMul", (1, 8000), [8000, 8000]),
    "product with one column": lambda: computed("MatMul", (1, 1 << 26), [1 << 26, 1]),
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
