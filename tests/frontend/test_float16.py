"""Which values of a float16 model are rounded to float16, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.onnx_runner import run_reference
from tests.small_network import small_network
from tvmconv.frontend import read_model

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
X = np.array([[300, 1.001, 3.14159, -60000, 2e-6, 0.1, 7, 1000]], np.float16)


def make(
    nodes: list[Any], outputs: dict[str, int], constants: dict[str, Any] | None = None,
    code: int = HALF, opset: int = 19,
) -> ModelProto:  # fmt: skip
    """A model on ``x``, of X's shape; ``outputs`` are element types by name."""
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", code, X.shape)],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def agree(model: ModelProto, x: Any = X) -> list[Any]:
    """Build and run; the results, which are onnxruntime's to one rounding to float16."""
    results = list(tvmconv.build(model, threads=1, log="none").run({"x": x}))
    for result, expected in zip(results, run_reference(model, {"x": x}), strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        rtol = 2**-10 if expected.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(result, expected, rtol, 6e-8)
    return results


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), f"{op}.{outputs}", **attributes)


def test_values_between_operators_are_not_rounded() -> None:
    """The squares leave float16, their root and their float32 form do not."""
    squares = [node("Mul", "x x", "a"), node("Sqrt", "a", "y"), node("Cast", "a", "z", to=SINGLE)]
    root, wide = agree(make(squares, {"y": HALF, "z": SINGLE}))
    assert np.isfinite(root).all()
    np.testing.assert_allclose(wide, X.astype(np.float64) ** 2, 1e-6)


def test_an_output_that_leaves_float16_is_infinite() -> None:
    (y,) = agree(make([node("Mul", "x x", "y")], {"y": HALF}))
    assert np.isinf(y).any()


def test_a_pair_of_casts_rounds() -> None:
    x = np.array([[1.0001, 1e6, -1e-9, 3.14159, 70000, 5, 6, 7]], np.float32)
    casts = [node("Cast", "x", "a", to=HALF), node("Cast", "a", "y", to=SINGLE)]
    (y,) = agree(make(casts, {"y": SINGLE}, code=SINGLE), x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, x.astype(np.float16).astype(np.float32))
    like = [node("CastLike", "x h", "a"), node("CastLike", "a s", "y")]
    constants = {"h": np.ones(1, np.float16), "s": np.ones(1, np.float32)}
    built = tvmconv.build(make(like, {"y": SINGLE}, constants, SINGLE), threads=1, log="none")
    np.testing.assert_array_equal(built.run({"x": x})[0], y)


def test_a_cast_that_an_operator_reads_does_not_round() -> None:
    """As converters to mixed precision write it around operators that stay float32."""
    x = np.array([[1.0001, 1e6, 1e-9, 3.14159, 70000, 5, 6, 7]], np.float32)
    nodes = [
        node("Cast", "x", "a", to=HALF),
        node("Sqrt", "a", "b"),
        node("Cast", "b", "c", to=SINGLE),
        node("Mul", "c c", "d"),
        node("Cast", "d", "e", to=HALF),
        node("Sqrt", "e", "f"),
        node("Cast", "f", "y", to=SINGLE),
    ]
    model = make(nodes, {"y": SINGLE}, code=SINGLE)
    agree(model, x)
    assert not any(node.op == "Cast" for node in read_model(model).graph.nodes)


def test_outputs_that_are_read_or_given() -> None:
    """An output that operators read, an input and a constant as outputs, a Cast's output."""
    nodes = [
        node("Add", "x c", "y"),
        node("Mul", "y c", "z"),
        node("Identity", "x", "i"),
        node("Identity", "c", "k"),
        node("Cast", "z", "w", to=SINGLE),
        node("Cast", "w", "v", to=HALF),
        node("Cast", "v", "u", to=SINGLE),
    ]
    names = dict.fromkeys("yzikv", HALF) | {"w": SINGLE, "u": SINGLE}
    constant = np.linspace(0.5, 1.5, 8).astype(np.float16)
    results = tvmconv.build(make(nodes, names, {"c": constant}), threads=1, log="none").run(X)
    total = X.astype(np.float64) + constant
    expected = [total, total * constant, X, constant, total * constant]
    for result, wanted in zip(results, expected, strict=False):
        assert result.dtype == np.float16
        np.testing.assert_allclose(result, wanted.astype(np.float16), 2**-10, 6e-8)
    np.testing.assert_allclose(results["w"], total * constant, 1e-6)
    np.testing.assert_array_equal(results["u"], results["v"].astype(np.float32))


@pytest.mark.parametrize("given", [True, False], ids=["input", "computed"])
def test_quantize_divides_in_its_scale_s_type(given: bool) -> None:
    """A scale that a DequantizeLinear reads as well, which multiplies in float32."""
    first = [] if given else [node("Mul", "x one", "a")]
    nodes = [
        *first,
        node("QuantizeLinear", f"{'x' if given else 'a'} s p", "q"),
        node("DequantizeLinear", "q s p", "y"),
    ]
    constants = {
        "one": np.ones(1, np.float16), "s": np.float16(0.37), "p": np.int8(3),
    }  # fmt: skip
    agree(make(nodes, {"q": TensorProto.INT8, "y": HALF}, constants))


def test_constants_are_summed_in_float32() -> None:
    constants = {"c": np.full((5000, 8), 20, np.float16), "axes": np.array([0])}
    nodes = [node("ReduceMean", "c axes", "m"), node("Add", "x m", "y")]
    (y,) = agree(make(nodes, {"y": HALF}, constants))
    np.testing.assert_allclose(y, (X.astype(np.float64) + 20).astype(np.float16))


def test_the_written_graph_is_a_model_of_the_same_types() -> None:
    """The form that reports and adapters of other libraries read."""
    model = make([node("Mul", "x x", "a"), node("Sqrt", "a", "y")], {"y": HALF})
    written = read_model(model).proto
    np.testing.assert_allclose(run_reference(written, {"x": X})[0], np.abs(X), 2**-10)


def in_float16(model: ModelProto) -> ModelProto:
    """The same network with float16 inputs, outputs and constants."""
    half = ModelProto.FromString(model.SerializeToString())
    for tensor in half.graph.initializer:
        if tensor.data_type == SINGLE:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for value in (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = HALF
    return half


def test_a_network_has_the_kernels_of_its_float32_form() -> None:
    """And no conversion but at its ends, so that it takes the same time."""
    single, half = small_network(), in_float16(small_network())
    built, wide = (tvmconv.build(model, threads=1, log="none") for model in (half, single))
    operators = [call.operator for call in built.manifest.calls]
    assert operators[0] == "astype"
    assert operators[-1] == "astype"
    assert operators[1:-1] == [call.operator for call in wide.manifest.calls]
    x = np.random.default_rng(0).standard_normal((1, 3, 21, 20)).astype(np.float16)
    (expected,) = wide.run({"input": x.astype(np.float32)})
    np.testing.assert_allclose(built.run({"input": x})[0], expected, 2e-3, 1e-4)


def test_what_is_picked_is_cast_alone() -> None:
    places = {"i": np.array([6, 1, -1])}
    nodes = [
        node("Gather", "x i", "y", axis=1),
        node("Gather", "x i", "a", axis=1),
        node("Mul", "a a", "b"),
        node("Cast", "b", "z", to=SINGLE),
    ]
    model = make(nodes, {"y": HALF, "z": SINGLE}, places)
    agree(model)
    graph = read_model(model).graph
    casts = [n.inputs[0] for n in graph.nodes if n.op == "Cast"]
    assert "x" not in casts


def test_values_that_are_only_moved_stay_float16() -> None:
    """Others than those between inputs and outputs are moved in float32."""
    moves = [
        node("Transpose", "x", "t", perm=[1, 0]),
        node("Concat", "t t", "c", axis=1),
        node("Split", "c", "a b", axis=0, num_outputs=2),
        node("Reshape", "b s", "y"),
        node("Transpose", "t", "u", perm=[1, 0]),
        node("Mul", "u u", "z"),
    ]
    model = make(moves, {"a": HALF, "y": HALF, "z": HALF}, {"s": np.array([2, 4])})
    agree(model)
    built = tvmconv.build(make(moves[:4], {"a": HALF, "y": HALF}, {"s": np.array([2, 4])}),
                          threads=1, log="none")  # fmt: skip
    assert not any("astype" in call.operator for call in built.calls)
    payload = np.array([[0x7C01, 0x7E55, 0xFE01, 0xFC00, 1, 0x8000, 0x7BFF, 0x3C00]], np.uint16)
    a, y = built.run({"x": payload.view(np.float16)}).values()
    moved = np.concatenate([payload.T, payload.T], 1)
    np.testing.assert_array_equal(a.view(np.uint16), moved[:4])
    np.testing.assert_array_equal(y.view(np.uint16), moved[4:].reshape(2, 4))
