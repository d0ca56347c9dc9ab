"""INT8 models with an error: the message names the node, the value and the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.bad_models import refuse
from tests.frontend.quantised_models import single_node
from tvmconv.frontend import read_model
from tvmconv.frontend.integers import largest_sum

U8, S8, F = np.uint8, np.int8, np.float32
MICROSOFT = "com.microsoft"
X = np.zeros((2, 5, 3), F)
Q = np.zeros((2, 5, 3), U8)


def scale(*values: float) -> np.ndarray:
    return np.asarray(values if len(values) > 1 else values[0], F)


LINEAR: dict[str, tuple[np.ndarray, np.ndarray | None, dict[str, Any], str]] = {
    "rank": (np.ones((5, 1), F), None, {}, "rank must be 0 or 1"),
    "length": (np.ones(4, F), None, {}, "5 channels"),
    "axis": (np.ones(5, F), None, {"axis": 3}, "axis=3"),
    "zero": (scale(0), None, {}, "holds 0.0"),
    "negative": (scale(1, 1, -2, 1, 1), None, {}, "holds -2.0"),
    "infinite": (scale(np.inf), None, {}, "holds inf"),
    "not a number": (scale(np.nan), None, {}, "holds nan"),
    "zero point's length": (np.ones(5, F), np.zeros(4, U8), {}, "zero point"),
    "zero point of channels": (scale(1), np.zeros(5, U8), {}, "zero point"),
    "blocks": (np.ones((2, 2, 3), F), None, {"block_size": 2, "opset": 21}, "blocks of 2"),
    "block size": (np.ones((2, 3, 3), F), None, {"block_size": -1, "opset": 21}, "block_size"),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_and_zero_points(op: str, name: str) -> None:
    values, zero_point, attrs, word = LINEAR[name]
    operands = [X if op == "QuantizeLinear" else Q, values, zero_point]
    model, _ = single_node(op, operands[: 3 if zero_point is not None else 2], **attrs)
    refuse(model, "node1", op, word)


def test_types() -> None:
    one, other = scale(1), np.zeros((), S8)
    model, _ = single_node("DequantizeLinear", [Q, one, other], "float32")
    refuse(model, "node1", "DequantizeLinear", "same type", "int8")
    model, _ = single_node(
        "QuantizeLinear", [X, one, other], opset=21, output_dtype=TensorProto.UINT8
    )
    refuse(model, "node1", "QuantizeLinear", "output_dtype is uint8")
    model, _ = single_node("QuantizeLinear", [X, one], opset=21, output_dtype=TensorProto.INT32)
    refuse(model, "node1", "QuantizeLinear", "its output is int32")
    sums = np.zeros((2, 5, 3), np.int32)
    model, _ = single_node("DequantizeLinear", [sums, one, np.ones((), np.int32)], "float32")
    refuse(model, "node1", "no zero point but 0")
    model, _ = single_node(
        "MatMulInteger", [np.zeros((2, 3), U8), np.zeros((3, 2), S8), np.zeros((), S8)], "int32"
    )
    refuse(model, "node1", "MatMulInteger", "int8")


def convolution(**changed: Any) -> list[np.ndarray]:
    """Operands of a QLinearConv, some of them others than they should be."""
    operands = {
        "x": np.zeros((1, 3, 6, 6), U8), "x_scale": scale(0.1), "x_zero": np.zeros((), U8),
        "w": np.ones((4, 3, 3, 3), S8), "w_scale": scale(0.1), "w_zero": np.zeros((), S8),
        "y_scale": scale(0.1), "y_zero": np.zeros((), U8), "bias": np.zeros(4, np.int32),
    }  # fmt: skip
    return list({**operands, **changed}.values())


CONVOLUTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "channels": ({"w": np.ones((4, 2, 3, 3), S8)}, "channels"),
    "length of scales": ({"w_scale": np.ones(3, F), "w_zero": np.zeros(3, S8)}, "4 channels"),
    "scales of data": ({"x_scale": np.ones(3, F), "x_zero": np.zeros(3, U8)}, "3 values"),
    "rank of scales": ({"w_scale": np.ones((4, 1), F)}, "shape (4, 1)"),
    "zero points": ({"w_zero": np.zeros(4, S8)}, "zero point"),
    "zero scale": ({"y_scale": scale(0)}, "holds 0.0"),
    "type of zero point": ({"x_zero": np.zeros((), S8)}, "int8"),
    "type of weight's": ({"w_zero": np.zeros((), U8)}, "uint8"),
    "type of bias": ({"bias": np.zeros(4, F)}, "float32"),
    "length of bias": ({"bias": np.zeros(5, np.int32)}, "bias"),
    "bias too large": ({"bias": np.full(4, 2**31 - 6000, np.int32)}, "int32"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    changed, word = CONVOLUTIONS[name]
    model, _ = single_node("QLinearConv", convolution(**changed))
    refuse(model, "node1", word)


def test_scales_at_run_time() -> None:
    model, _ = single_node("QLinearConv", convolution(), data=(0, 4))
    refuse(model, "node1", "QLinearConv", "run time")


@pytest.mark.parametrize("transposed", [0, 1])
def test_sums_beyond_32_bits(transposed: int) -> None:
    depth = 2**31 // (255 * 127) + 1
    a, one, none = np.zeros((1, depth), U8), scale(1), np.zeros((), U8)
    b = np.full((2, depth) if transposed else (depth, 2), 127, S8)
    model, _ = single_node(
        "QGemm", [a, one, none, b, one, np.zeros((), S8), None, one, none],
        domain=MICROSOFT, transB=transposed,
    )  # fmt: skip
    refuse(model, "node1", "QGemm", "int32 does not hold")
    if not transposed:
        refuse(single_node("MatMulInteger", [a, b], "int32")[0], "node1", "int32 does not hold")
        # one product fewer, and they fit
        read_model(single_node("MatMulInteger", [a[:, 1:], b[1:]], "int32")[0])


def test_the_bound_is_reached() -> None:
    """By data at the ends of their range, for every zero point of theirs there is at the ends."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        w = rng.integers(-128, 127, (3, 7), dtype=S8, endpoint=True)
        zero = rng.integers(-128, 127, (3, 1), dtype=S8, endpoint=True)
        bias = rng.integers(-1000, 1000, 3, dtype=np.int32)
        wide = w.astype(int) - zero
        sums = [
            abs((np.where((row > 0) == up, 255, 0) - z) @ row + b)
            for z in (0, 255)
            for row, b in zip(wide, bias, strict=True)
            for up in (True, False)
        ]
        assert max(sums) <= largest_sum(w, zero, bias) <= max(sums) + 2000


def test_other_operators_and_attributes_of_other_operator_sets() -> None:
    operands = [Q, scale(1), np.zeros((), U8), scale(1), np.zeros((), U8)]
    model, _ = single_node("QLinearReduceMean", operands, domain=MICROSOFT)
    refuse(model, "node1", "com.microsoft")
    model, _ = single_node("Conv", convolution()[:2], domain=MICROSOFT)
    refuse(model, "node1", "com.microsoft")
    model, _ = single_node("QLinearSigmoid", operands, domain=MICROSOFT, sharpness=2)
    refuse(model, "node1", "sharpness")
    model, _ = single_node("QLinearConcat", [scale(1), np.zeros((), U8), Q], domain=MICROSOFT)
    refuse(model, "node1", "QLinearConcat")
