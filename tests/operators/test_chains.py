"""Element-wise chains in which a result is read more than once, and integer division."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference

_FIRST = ("Exp", "Log", "Softplus", "Sigmoid", "Erf", "Sinh", "Cosh")
_LAST = ("Mul", "Tanh", "Selu", "Softsign", "Mish", "HardSwish", "ThresholdedRelu", "Shrink")
_CORE = {("Exp", "Mul"), ("Softplus", "Tanh"), ("Sinh", "Selu"), ("Erf", "Shrink")}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(*pair, marks=() if pair in _CORE else pytest.mark.slow)
        for pair in product(_FIRST, _LAST)
    ],
)
def test_read_twice(first, last) -> None:
    inputs = ["z", "z"] if last == "Mul" else ["z"]
    nodes = [helper.make_node(first, ["x"], ["z"]), helper.make_node(last, inputs, ["y"])]
    proto = make_model(nodes, {"x": (3, 64)}, ["y"], opset=20)
    x = np.abs(noise(3, 64)) + 0.1
    actual = tvmconv.build(proto, threads=1).run(x)[0]
    np.testing.assert_allclose(actual, run_reference(proto, {"x": x})[0], 2e-5, 2e-6)


@pytest.mark.parametrize("operator", ["Sinh", "Cosh"])
def test_hyperbolic(operator) -> None:
    x = np.concatenate([np.linspace(-89, 89, 4001), np.geomspace(1e-30, 89, 999)]).astype("float32")
    proto = make_model([helper.make_node(operator, ["x"], ["y"])], {"x": x.shape}, ["y"])
    actual = tvmconv.build(proto, threads=1).run(x)[0]
    expected = getattr(np, operator.lower())(x.astype("float64"))
    # exp of half the argument is squared: its error counts twice
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_no_signal_for_any_divisor(dtype, operator) -> None:
    info = np.iinfo(dtype)
    values = np.array(sorted({info.min, max(info.min, -1), 0, 1, 2, 7, info.max}), dtype)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    node = helper.make_node(operator, ["a", "b"], ["y"])
    proto = make_model([node], {"a": a.shape, "b": b.shape}, ["y"])
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(a.dtype)
    results = tvmconv.build(proto, threads=1).run({"a": a, "b": b})[0].tolist()
    for n, d, actual in zip(a.tolist(), b.tolist(), results, strict=True):
        if d == 0:
            assert actual == 0
        elif operator == "Mod":
            assert actual == n % d
        elif dtype != "int64" or info.min not in (n, d):
            quotient = abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1)
            # the quotient that does not fit wraps
            assert actual == (quotient if quotient <= info.max else info.min)


def test_einsum() -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "sums", equation="abcd->ba")
    proto = make_model([node], {"x": (2, 3, 4, 5)}, ["y"])
    x = noise(2, 3, 4, 5)
    actual = tvmconv.build(proto, threads=1).run(x)[0]
    np.testing.assert_allclose(actual, run_reference(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)
