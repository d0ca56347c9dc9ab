"""Attributes and constants at the ends of their range: computed as specified, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tvmconv
from tests.frontend.bad_models import refuse
from tests.frontend.onnx_runner import make_model, noise, run, whole_build


def _typed(operator: str, dtype: str, opset: int = 22, **attributes: Any) -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], "node1", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", code, [3, 11])],
        [helper.make_tensor_value_info("y", code, [3, 11])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (1, 1000, -(2**62)),
        (1, 1000, 2**63 - 1),
        (9, -1000, -(2**63)),
        (5, 3, 1),
        (3, 5, -1),
        (8, 0, -3),
    ],
)
def test_slices_with_any_step(start: int, end: int, step: int) -> None:
    values = {"s": start, "e": end, "a": 1, "p": step}
    constants = {name: np.array([value], np.int64) for name, value in values.items()}
    node = helper.make_node("Slice", ["x", *constants], ["y"], "cut")
    x = noise(2, 10, 3)
    result = run(make_model([node], {"x": x.shape}, ["y"], constants), {"x": x}, whole_build)[0]
    np.testing.assert_array_equal(result, x[:, slice(start, end, step)])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-(2**63), -(2**32) - 1, -4, 0, 6, 2**31, 2**63 - 1])
def test_diagonals_outside_the_matrix(k: int, upper: int) -> None:
    node = helper.make_node("Trilu", ["x", "k"], ["y"], "half", upper=upper)
    x = noise(4, 5)
    model = make_model([node], {"x": x.shape}, ["y"], {"k": np.array(k, np.int64)})
    near = int(np.clip(k, -10, 10))
    expected = np.triu(x, near) if upper else np.tril(x, near)
    np.testing.assert_array_equal(run(model, {"x": x})[0], expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("Acos", np.arccos),
        ("Asin", np.arcsin),
        ("Asinh", np.arcsinh),
        ("Atan", np.arctan),
        ("Atanh", np.arctanh),
        ("Cosh", np.cosh),
        ("Sinh", np.sinh),
        ("Tan", np.tan),
    ],
)
def test_functions_of_every_float(operator: str, function: Any, dtype: str) -> None:
    x = np.concatenate([np.linspace(-0.99, 0.99, 30), [0, 1e-6, -1e-3]]).reshape(3, 11)
    x = x.astype(dtype)
    result = run(_typed(operator, dtype), {"x": x})[0]
    tolerance = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-10}[dtype]
    np.testing.assert_allclose(result, function(x.astype(float)), tolerance, 1e-7)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_quotients_of_integers(kind: str, bits: int) -> None:
    dtype = f"{kind}{bits}"
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
    shares = [limits.max // 3 * 2, limits.max // 7, limits.min // 3 * 2]
    values = np.array([*ends, *range(-3 if limits.min else 0, 8), *shares], dtype)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    # constants that every division can do are not tested for 0 and -1
    divisors = {
        "b": b,
        "c": b,
        "d": np.where(np.isin(b, [0, -1] if limits.min else [0]), b.dtype.type(5), b),
    }
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("Div", ["a", name], [f"y_{name}"]) for name in divisors],
        "g",
        [helper.make_tensor_value_info(name, code, a.shape) for name in ("a", "b")],
        [helper.make_tensor_value_info(f"y_{name}", code, a.shape) for name in divisors],
        [numpy_helper.from_array(divisors[name], name) for name in ("c", "d")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def quotient(x: int, y: int) -> int:
        whole = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        # only the smallest integer by -1 is too large
        return limits.min if whole > limits.max else whole

    results = run(model, {"a": a, "b": b})
    for divisor, result in zip(divisors.values(), results, strict=True):
        pairs = zip(a.tolist(), divisor.tolist(), strict=True)
        np.testing.assert_array_equal(result, np.array([quotient(*pair) for pair in pairs], dtype))


def test_numbers_at_the_ends_of_integer_types() -> None:
    # TVM negates constant numbers, and takes the ends of int64 for infinite
    functions: dict[str, Any] = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Mod": np.mod,
        "Equal": np.equal, "LessOrEqual": np.less_equal,
    }  # fmt: skip
    used = {
        "int8": "Mod", "int32": "Mul Mod Equal LessOrEqual", "int64": "Add Sub Mul Mod",
        "uint64": "Add Sub Mod",
    }  # fmt: skip
    nodes, inputs, results, numbers, feeds, expected = [], [], [], [], {}, []
    for dtype, operators in used.items():
        limits = np.iinfo(dtype)
        end = np.array(limits.max if dtype[0] == "u" else limits.min, dtype)
        code = helper.np_dtype_to_tensor_dtype(end.dtype)
        near = [int(limits.min) + i for i in range(3)] + [int(limits.max) - i for i in range(3)]
        values = np.array([*near, *range(7)] * 3, dtype)
        numbers.append(numpy_helper.from_array(end, f"{dtype}_end"))
        for rank, x in enumerate((end[...], values)):
            name = f"{dtype}_{rank}"
            inputs.append(helper.make_tensor_value_info(name, code, x.shape))
            feeds[name] = x
            for operator in operators.split():
                result = f"{operator}_{name}"
                nodes.append(helper.make_node(operator, [name, f"{dtype}_end"], [result]))
                with np.errstate(over="ignore"):
                    expected.append(functions[operator](x, end))
                kind = 9 if expected[-1].dtype == bool else code
                results.append(helper.make_tensor_value_info(result, kind, x.shape))
    graph = helper.make_graph(nodes, "g", inputs, results, numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for node, result, right in zip(nodes, run(model, feeds, whole_build), expected, strict=True):
        np.testing.assert_array_equal(result, right, str(node))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_power_of_the_smallest_integer(dtype: str) -> None:
    least = np.array(np.iinfo(dtype).min, dtype)
    code = helper.np_dtype_to_tensor_dtype(least.dtype)
    graph = helper.make_graph(
        [helper.make_node("Pow", ["base", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", code, [])],
        [helper.make_tensor_value_info("y", code, [])],
        [numpy_helper.from_array(least, "base")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (result,) = run(model, {"x": np.array(1, dtype)})
    assert result.shape == () and result == least


def test_hyperbolic_functions_far_from_0() -> None:
    x = np.linspace(-720, 720, 33).reshape(3, 11)
    for operator, function in (("Cosh", np.cosh), ("Sinh", np.sinh)):
        with np.errstate(over="ignore"):
            expected = function(x)
        np.testing.assert_allclose(run(_typed(operator, "float64"), {"x": x})[0], expected, 1e-10)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float32"])
@pytest.mark.parametrize(("lambd", "bias"), [(0.5, 0.0), (2.5, 1.0)])
def test_shrink_of_every_type(dtype: str, lambd: float, bias: float) -> None:
    from onnx.reference import ReferenceEvaluator

    model = _typed("Shrink", dtype, lambd=lambd, bias=bias)
    x = np.arange(33).reshape(3, 11)
    x = (x if dtype == "uint8" else x - 16).astype(dtype)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(run(model, {"x": x})[0], expected)


@pytest.mark.parametrize("alpha", [1e30, 1e-30, 2000.0, 1e-4, -1e30, 1.5])
def test_celu_of_any_alpha(alpha: float) -> None:
    x = noise(3, 11)
    wide, factor = x.astype(float), float(np.float32(alpha))
    with np.errstate(over="ignore"):
        tail = np.minimum(0, factor * np.expm1(np.minimum(wide, 0) / factor))
    result = run(_typed("Celu", "float32", alpha=alpha), {"x": x})[0]
    np.testing.assert_allclose(result, np.maximum(wide, 0) + tail, 1e-5, 1e-7)


def test_celu_of_float16_whose_alpha_is_not_float16() -> None:
    newest = onnx.defs.onnx_opset_version()
    schema = onnx.defs.get_schema("Celu", newest)
    if "tensor(float16)" not in schema.inputs[0].types:
        refuse(_typed("Celu", "float16", newest, alpha=1e30), "does not take")
        return
    x = noise(3, 11).astype(np.float16)
    result = run(_typed("Celu", "float16", newest, alpha=1e30), {"x": x})[0]
    np.testing.assert_allclose(result, x, 1e-3)


@pytest.mark.parametrize("equation", ["ij-\u3b15", "ij-", "i..j->i", "ij->i->j"])
def test_malformed_equations(equation: str) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "sum", equation=equation)
    refuse(make_model([node], {"x": (3, 4)}, ["y"]), "sum", "equation")


def test_modes_that_do_not_exist() -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], "blocks", blocksize=2, mode="linear")
    refuse(make_model([node], {"x": (1, 8, 2, 3)}, ["y"]), "blocks", "linear", "DCR")


def test_grids_without_room() -> None:
    node = helper.make_node("AffineGrid", ["x", "size"], ["y"], "grid1")
    size = {"size": np.array([2, 3, 4, 0, 6], np.int64)}
    model = make_model([node], {"x": (2, 3, 4)}, ["y"], size, opset=20)
    assert run(model, {"x": noise(2, 3, 4)}, whole_build)[0].shape == (2, 4, 0, 6, 3)
    size["size"][3] = 1
    model = make_model([node], {"x": (2, 3, 4)}, ["y"], size, opset=20)
    assert run(model, {"x": noise(2, 3, 4)})[0].shape == (2, 4, 1, 6, 3)
    node.attribute.append(helper.make_attribute("align_corners", 1))
    model = make_model([node], {"x": (2, 3, 4)}, ["y"], size, opset=20)
    refuse(model, "grid1", "align_corners")
    options = {"align_corners": 1, "padding_mode": "reflection"}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], "grid1", **options)
    shapes = {"x": (1, 2, 1, 5), "grid": (1, 3, 3, 2)}
    refuse(make_model([node], shapes, ["y"], opset=20), "grid1", "reflect", "(1, 5)")


def test_bounds_that_are_no_scalars() -> None:
    node = helper.make_node("Clip", ["x", "low"], ["y"], "clip1")
    shape = (3, 4)
    refuse(make_model([node], {"x": shape}, ["y"], {"low": noise(*shape)}), "clip1", "low")
    model = make_model([node], {"x": shape, "low": shape}, ["y"])
    refuse(model, "clip1", "low", "scalar")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_transposed_convolution_of_weights_that_are_not_finite(value: float) -> None:
    weight = noise(1, 2, 3, 3)
    weight[0, 1, 2, 0] = value
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up1")
    refuse(make_model([node], {"x": (1, 1, 3, 3)}, ["y"], {"w": weight}), "up1", "'w'", "finite")


def test_alpha_of_zero() -> None:
    refuse(_typed("Celu", "float32", alpha=0.0), "node1", "alpha=0")


def test_constants_without_a_number_are_named() -> None:
    weight = noise(4, 3, 3, 3)
    weight[0, 1, 2, 0] = np.nan
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv1")
    model = make_model([node], {"x": (1, 3, 5, 5)}, ["y"], {"w": weight})
    with pytest.warns(UserWarning, match="NaN in 'w'; outputs that depend on it") as told:
        built = tvmconv.build(model, threads=1)
    assert told[0].filename == __file__
    (y,) = built.run(noise(1, 3, 5, 5))
    assert np.isnan(y[:, 0]).all() and np.isfinite(y[:, 1:]).all()
