"""LSTM, GRU, RNN and DynamicQuantizeLSTM against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import ModelError

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUTS = 5, 3, 6
ACTIVATIONS = (
    "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus",
    "Softsign", "Tanh", "ThresholdedRelu",
)  # fmt: skip
Arrays = dict[str, np.ndarray]


def operands(op: str, hidden: int, *names: str, directions: int = 1, batch: int = BATCH) -> Arrays:
    """Random operands of a recurrent layer, in the order of its inputs, those named or all."""
    rng = np.random.default_rng(0)
    gates, state = GATES[op] * hidden, (directions, batch, hidden)
    shapes = {
        "x": (STEPS, batch, INPUTS), "W": (directions, gates, INPUTS),
        "R": (directions, gates, hidden), "B": (directions, 2 * gates), "lengths": (batch,),
        "h": state, "c": state, "P": (directions, 3 * hidden),
    }  # fmt: skip
    if op != "LSTM":
        shapes = {name: shapes[name] for name in list(shapes)[:6]}
    made = {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in shapes.items()}
    made["lengths"] = np.resize(np.array([STEPS, 2, 0], np.int32), batch)
    kept = {"x", "W", "R", *(names or made)}
    return {name: array for name, array in made.items() if name in kept}


def model_of(
    op: str, arrays: Mapping[str, np.ndarray], *run_time: str, outputs: str = "", **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; operands are constants except ``x`` and those named."""
    order = ("x", "W", "R", "B", "lengths", "h", "c", "P")
    names = [name if name in arrays else "" for name in order]
    while not names[-1]:
        names.pop()
    results = (outputs or ("y yh yc" if op == "LSTM" else "y yh")).split(" ")
    node = helper.make_node(op, names, results, "layer", **attributes)
    free = [name for name in arrays if name in ("x", *run_time)]
    types = {name: helper.np_dtype_to_tensor_dtype(arrays[name].dtype) for name in free}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, types[n], arrays[n].shape) for n in free],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results if n],
        [numpy_helper.from_array(arrays[n], n) for n in arrays if n not in free],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], **options: Any) -> None:
    feeds = {info.name: arrays[info.name] for info in model.graph.input}
    expected = run_reference(model, feeds)
    compiled = tvmconv.build(model, **options)
    results = compiled.run(feeds)
    for info, wanted in zip(model.graph.output, expected, strict=True):
        np.testing.assert_allclose(results[info.name], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "hidden"), [("LSTM", 20), ("GRU", 7), ("RNN", 37)])
def test_all_operands(op: str, hidden: int, direction: str) -> None:
    arrays = operands(op, hidden, directions=2 if direction == "bidirectional" else 1)
    model = model_of(op, arrays, "lengths", "h", direction=direction, hidden_size=hidden)
    check(model, arrays, threads=2)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LSTM", {"clip": 0.4, "input_forget": 1}),
        ("GRU", {"clip": 0.4, "linear_before_reset": 1}),
        ("RNN", {"clip": 0.4}),
        ("GRU", {"activations": ["Softsign", "Softplus", "Sigmoid", "Tanh"],
                 "direction": "bidirectional"}),
    ],
)  # fmt: skip
def test_attributes(op: str, attributes: dict[str, Any]) -> None:
    arrays = operands(op, 16, "B", "h", directions=2 if "direction" in attributes else 1)
    check(model_of(op, arrays, hidden_size=16, **attributes), arrays)


@pytest.mark.parametrize("first", [0, 5])
def test_activations(first: int) -> None:
    """Six functions in one layer; those with parameters consume them in order."""
    arrays = operands("LSTM", 8, "B", directions=2)
    chosen = ACTIVATIONS[first : first + 6]
    alphas, betas = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    factors = {"activation_alpha": alphas, "activation_beta": betas}
    attributes = {"activations": chosen, "direction": "bidirectional", **factors}
    check(model_of("LSTM", arrays, hidden_size=8, **attributes), arrays)


@pytest.mark.parametrize("outputs", ["y", " yh", "  yc"])
def test_any_of_the_outputs(outputs: str) -> None:
    arrays = operands("LSTM", 16, "B")
    check(model_of("LSTM", arrays, outputs=outputs, hidden_size=16), arrays)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_run_time_weights_and_one_sequence(op: str) -> None:
    arrays = operands(op, 16, "B", batch=1)
    after = {"linear_before_reset": 1} if op == "GRU" else {}
    check(model_of(op, arrays, "W", "R", "B", hidden_size=16, **after), arrays)


def test_batch_first_is_the_same_in_another_order() -> None:
    """onnxruntime has no layout 1."""
    arrays = operands("LSTM", 16)
    (y, h, c) = run_reference(model_of("LSTM", arrays, hidden_size=16), {"x": arrays["x"]})
    turned = {
        name: array.swapaxes(0, 1).copy() if name in ("x", "h", "c") else array
        for name, array in arrays.items()
    }
    results = tvmconv.build(model_of("LSTM", turned, hidden_size=16, layout=1)).run(
        {"x": turned["x"]}
    )
    for name, wanted in (("y", y.transpose(2, 0, 1, 3)), ("yh", h), ("yc", c)):
        expected = wanted if name == "y" else wanted.swapaxes(0, 1)
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-5)


def test_lengths_beyond_the_steps_are_the_steps() -> None:
    arrays = operands("GRU", 8, "lengths")
    compiled = tvmconv.build(model_of("GRU", arrays, "lengths", hidden_size=8))
    lengths = np.array([STEPS, STEPS, STEPS], np.int32)
    beyond = np.array([2**31 - 1, STEPS + 1, STEPS], np.int32)
    first, second = (compiled.run({"x": arrays["x"], "lengths": n}) for n in (lengths, beyond))
    assert all(np.array_equal(first[name], second[name]) for name in ("y", "yh"))
    nothing = compiled.run({"x": arrays["x"], "lengths": np.array([-1, -(2**31), 0], np.int32)})
    assert not any(nothing[name].any() for name in ("y", "yh"))


def test_layers_are_reported_with_their_work() -> None:
    arrays = operands("LSTM", 16, "B")
    calls = tvmconv.build(model_of("LSTM", arrays, hidden_size=16)).calls
    found = {call.layer: call for call in calls}
    assert found["layer"].operator == "lstm"
    assert found["layer"].flops == 2 * STEPS * BATCH * 4 * 16 * 16
    assert found["layer.input"].flops == 2 * STEPS * BATCH * 4 * 16 * INPUTS


@pytest.mark.parametrize("channels", [False, True])
def test_quantized_weights_are_what_their_integers_stand_for(channels: bool) -> None:
    rng = np.random.default_rng(1)
    arrays = operands("LSTM", 16, "B")
    numbers = {}
    for name, rows in (("W", INPUTS), ("R", 16)):
        integers = rng.integers(-100, 100, (1, rows, 64)).astype(np.int8)
        shape = (1, 64) if channels else (1,)
        scale = rng.uniform(0.005, 0.01, shape).astype(np.float32)
        numbers[name] = (integers, scale, np.zeros(shape, np.int8))
        arrays[name] = (integers * scale.reshape(1, 1, -1)).transpose(0, 2, 1).copy()
    names = ["x", "W", "R", "B", "", "", "", "", "Ws", "Wz", "Rs", "Rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM", names, ["y", "yh"], "q", domain="com.microsoft", hidden_size=16
    )
    constants = {"B": arrays["B"]}
    for name, (integers, scale, zero) in numbers.items():
        constants |= {name: integers, f"{name}s": scale, f"{name}z": zero}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, arrays["x"].shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "yh")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    results = tvmconv.build(model).run({"x": arrays["x"]})
    feeds = {"x": arrays["x"]}
    exact = run_reference(model_of("LSTM", arrays, outputs="y yh", hidden_size=16), feeds)
    rounded = run_reference(model, feeds)
    for name, wanted, near in zip(("y", "yh"), exact, rounded, strict=True):
        np.testing.assert_allclose(results[name], wanted, rtol=1e-5, atol=1e-5)
        # onnxruntime rounds the input and the states to 8 bits
        np.testing.assert_allclose(results[name], near, atol=0.02)


@pytest.mark.parametrize(
    ("change", "attributes", "word"),
    [
        ({"W": (1, 64, 5)}, {}, "input 1 ('W') has shape (1, 64, 5)"),
        ({"R": (1, 60, 16)}, {}, "input 2 ('R')"),
        ({"R": (1, 64, 15)}, {}, "hidden_size=16"),
        ({"B": (1, 64)}, {}, "input 3 ('B')"),
        ({"lengths": (2,)}, {}, "input 4 ('lengths')"),
        ({"h": (1, 1, 16)}, {}, "input 5 ('h')"),
        ({"P": (2, 48)}, {}, "input 7 ('P')"),
        ({}, {"direction": "both"}, "direction='both'"),
        ({}, {"direction": "bidirectional"}, "(2, 64, 6)"),
        ({}, {"clip": -1.0}, "clip=-1.0"),
        ({}, {"layout": 2}, "layout=2"),
        ({}, {"activations": ["Tanh"]}, "Expected 3 names"),
        ({}, {"activations": ["Tanh", "Cosh", "Tanh"]}, "'Cosh'"),
        ({}, {"activations": ["Affine", "Tanh", "Tanh"]}, "no alpha or no beta"),
        ({}, {"activations": ["Elu"] * 3, "activation_alpha": [np.inf]}, "activation_alpha"),
    ],
)
def test_wrong_layers_are_refused_by_name(
    change: dict[str, tuple[int, ...]], attributes: dict[str, Any], word: str
) -> None:
    arrays = operands("LSTM", 16)
    for name, shape in change.items():
        arrays[name] = np.zeros(shape, arrays[name].dtype)
    with pytest.raises(ModelError) as caught:
        tvmconv.build(model_of("LSTM", arrays, hidden_size=16, **attributes))
    assert word in str(caught.value)
    assert "'layer'" in str(caught.value) or "checker" in str(caught.value)
