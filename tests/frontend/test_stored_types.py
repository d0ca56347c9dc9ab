"""Tensors of types that no kernel computes in, against ml_dtypes and ``onnx.reference``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tvmconv
from tests.frontend.bad_models import refuse
from tvmconv.core.stored_types import LARGEST, SMALL_INTEGERS, STORED, integer_limits, numpy_type
from tvmconv.frontend.tensors import CODES

FLOATS = [name for name in STORED if name not in SMALL_INTEGERS]


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[str, tuple[int, ...]]],
    outputs: dict[str, str],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, CODES[t], s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, CODES[t], None) for n, t in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)


def agree(proto: onnx.ModelProto, *inputs: np.ndarray, exact: bool = True) -> list[Any]:
    """Results equal to the reference's, NaN to NaN."""
    found = [*tvmconv.build(proto, threads=1).run(list(inputs))]
    names = [value.name for value in proto.graph.input]
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))
    for actual, expected in zip(found, wanted, strict=True):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        wide = [value.astype(np.float64) for value in (actual, expected)]
        tolerance = 0.0 if exact else 1e-5
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)
    return found


def spread(dtype: str) -> np.ndarray:
    """Numbers of every magnitude of a type, between and beyond its numbers."""
    generator = np.random.default_rng(0)
    largest = LARGEST.get(dtype, 3e38)
    low = -20 if largest < 1e5 else -60
    x = generator.standard_normal(2000) * 2.0 ** generator.integers(low, 20, 2000)
    ties = np.ldexp(generator.integers(-128, 128, 500) / 16, generator.integers(-12, 6, 500))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest, 1e38, -1e38, 1e-40]
    x = np.concatenate([x, ties, special]).astype(np.float32)
    return np.abs(x) if dtype == "float8_e8m0fnu" else x


def test_rounding_to_short_types_and_back() -> None:
    nodes, outputs, inputs, arrays = [], {}, {}, []
    for dtype in FLOATS:
        x = spread(dtype)
        inputs[f"x_{dtype}"] = ("float32", x.shape)
        arrays.append(x)
        shorts = dtype.startswith("float8")
        for saturate in (1, 0) if shorts else (1,):
            attributes: dict[str, Any] = {"saturate": saturate} if shorts else {}
            y, z = f"{dtype}_{saturate}", f"{dtype}_{saturate}_float"
            cast = helper.make_node("Cast", [f"x_{dtype}"], [y], to=CODES[dtype], **attributes)
            nodes += [cast, helper.make_node("Cast", [y], [z], to=TensorProto.FLOAT)]
            outputs |= {y: dtype, z: "float32"}
    agree(model(nodes, inputs, outputs), *arrays)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_rounding_to_powers_of_two(mode: str) -> None:
    x = spread("float8_e8m0fnu")
    node = helper.make_node("Cast", ["x"], ["y"], to=CODES["float8_e8m0fnu"], round_mode=mode)
    agree(model([node], {"x": ("float32", x.shape)}, {"y": "float8_e8m0fnu"}), x)


def test_small_integers_keep_their_low_bits() -> None:
    x = np.arange(-40, 40).astype(np.float32)
    nodes, outputs, inputs, arrays = [], {}, {"x": ("float32", x.shape)}, [x]
    for dtype in SMALL_INTEGERS:
        low, high = integer_limits(dtype)
        i = np.arange(low, high + 1).astype(numpy_type(dtype))
        inputs[f"{dtype}.i"] = (dtype, i.shape)
        arrays.append(i)
        for source, made, target in (
            ("x", f"{dtype}.y", dtype),
            (f"{dtype}.y", f"{dtype}.z", "int32"),
            (f"{dtype}.i", f"{dtype}.t", "float32"),
        ):
            nodes.append(helper.make_node("Cast", [source], [made], to=CODES[target]))
            outputs[made] = target
    agree(model(nodes, inputs, outputs), *arrays)


@pytest.mark.parametrize("constant", [True, False])
def test_quantization(constant: bool) -> None:
    """With a zero point for small integers, and a scale for each channel."""
    x = np.random.default_rng(0).normal(0, 4, (2, 3, 5)).astype(np.float32)
    nodes, outputs, values = [], {}, {"s": np.array([0.5, 1, 2], np.float32)}
    for dtype in (*SMALL_INTEGERS, *FLOATS[1:5], "float4_e2m1fn"):
        zero = np.full(3, 1 if dtype in SMALL_INTEGERS else 0).astype(numpy_type(dtype))
        q, y, w, z, c = (f"{dtype}.{name}" for name in "qywzc")
        values |= {z: zero, c: x.clip(0, 1).astype(numpy_type(dtype))}
        outputs |= {q: dtype, y: "float32", w: "float32"}
        nodes += [
            helper.make_node("QuantizeLinear", ["x", "s", z], [q], axis=1),
            helper.make_node("DequantizeLinear", [q, "s", z], [y], axis=1),
            helper.make_node("DequantizeLinear", [c, "s", z], [w], axis=1),
        ]
    given = {} if constant else values
    inputs = {name: (str(value.dtype), value.shape) for name, value in {"x": x, **given}.items()}
    proto = model(nodes, inputs, outputs, values if constant else None)
    agree(proto, x, *given.values())


def test_a_bfloat16_network_computes_in_float32(tmp_path: Any) -> None:
    """Also after saving; sums of bfloat16 would lose small addends."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 16, 6, 6)).astype(ml_dtypes.bfloat16)
    w = generator.standard_normal((16, 16, 3, 3)).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = {"w": w}
    proto = model(nodes, {"x": ("bfloat16", x.shape)}, {"y": "bfloat16"}, constants)
    built = tvmconv.build(proto, threads=1)
    wide = model(nodes, {"x": ("float32", x.shape)}, {"y": "float32"}, {"w": w.astype(np.float32)})
    expected = tvmconv.build(wide, threads=1).run(x.astype(np.float32))[0]
    y = built.run(x)[0]
    np.testing.assert_array_equal(y, expected.astype(ml_dtypes.bfloat16))
    assert "bfloat16 computes in float32" in str(built.explain())
    built.save(tmp_path / "model.so")
    np.testing.assert_array_equal(tvmconv.load(tmp_path / "model.so").run(x)[0], y)
    with pytest.raises(tvmconv.errors.InputError, match="has type float32"):
        built.run(x.astype(np.float32))


def test_packed_tensors_of_other_lengths() -> None:
    """The last byte of an odd number of elements is filled up."""
    for dtype, count in (("int4", 5), ("uint4", 4), ("int2", 7), ("float4_e2m1fn", 3)):
        values = np.arange(count) % 2
        proto = model(
            [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)],
            {"x": ("float32", (1,))},
            {"y": "float32"},
            {"w": values.astype(numpy_type(dtype))},
        )
        np.testing.assert_array_equal(
            tvmconv.build(proto, threads=1).run([np.ones(1, "f")])[0], values
        )
    damaged = onnx.ModelProto()
    damaged.CopyFrom(proto)
    damaged.graph.initializer[0].raw_data += b"\0"
    refuse(damaged, "needs 2 bytes of data but holds 3")


def test_the_bits_of_numbers() -> None:
    x = np.array([1, -2, np.inf, np.nan], np.float32)
    flags = np.array([True, False])
    nodes = [
        helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT32),
        helper.make_node("BitCast", ["f"], ["z"], to=TensorProto.UINT8),
    ]
    proto = model(nodes, {"x": ("float32", x.shape), "f": ("bool", flags.shape)},
                  {"y": "int32", "z": "uint8"})  # fmt: skip
    proto.opset_import[0].version = 26
    y, z = tvmconv.build(proto, threads=1).run(x, flags)
    np.testing.assert_array_equal(y, x.view(np.int32))
    np.testing.assert_array_equal(z, [1, 0])


def test_operators_of_an_empty_input() -> None:
    """Reductions of nothing are constants."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("ReduceMin", ["x"], ["m"], keepdims=0),
        helper.make_node("Concat", ["x", "y"], ["c"], axis=0),
    ]
    inputs = {"x": ("float32", (0, 3)), "y": ("float32", (2, 3))}
    proto = model(nodes, inputs, dict.fromkeys("smc", "float32"))
    x, y = np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)
    s, m, c = tvmconv.build(proto, threads=1, shapes={"x": (0, 3)}).run(x, y)
    assert (s, m) == (0, np.inf)
    np.testing.assert_array_equal(c, y)
    refuse(proto, "not fixed")
