"""Operators whose meaning or spelling changed over time, at the versions that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from tests.frontend.bad_models import refuse
from tests.frontend.onnx_runner import make_model, noise, run, run_reference
from tvmconv.frontend import read_model


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# name -> (opsets, operator, shape of x, attributes, constant inputs after x)
CASES: dict[str, tuple[tuple[int, ...], str, tuple[int, ...], dict[str, Any], list[Any]]] = {
    "softmax joins axes": ((9, 11), "Softmax", (2, 3, 4, 5), {"axis": 1}, []),
    "softmax default before 13": ((11,), "Softmax", (2, 3, 4), {}, []),
    "softmax of one axis": ((13, 17), "Softmax", (2, 3, 4, 5), {"axis": 1}, []),
    "softmax default": ((13,), "Softmax", (2, 3, 4), {}, []),
    "softmax of flat planes": ((9,), "Softmax", (2, 7, 1, 1), {"axis": 1}, []),
    "logsoftmax joins axes": ((11,), "LogSoftmax", (2, 3, 4), {"axis": 1}, []),
    "logsoftmax of one axis": ((13,), "LogSoftmax", (2, 3, 4), {"axis": 1}, []),
    "clip by attributes": ((7, 10), "Clip", (2, 3), {"min": -0.5, "max": 0.5}, []),
    "clip below by attribute": ((10,), "Clip", (2, 3), {"min": 0.0}, []),
    "clip by inputs": ((11, 13), "Clip", (2, 3), {}, [np.float32(-0.5), np.float32(0.5)]),
    "clip above only": ((13,), "Clip", (2, 3), {}, [None, np.float32(0.5)]),
    "less or equal": ((12, 15, 16), "LessOrEqual", (2, 3), {}, [floats(-0.5, 0.0, 0.5)]),
    "greater or equal": ((12, 16), "GreaterOrEqual", (2, 3), {}, [floats(-0.5, 0.0, 0.5)]),
    "relu6": ((7,), "Clip", (2, 3), {"min": 0.0, "max": 6.0}, []),
    "upsample attribute": (
        (7,), "Upsample", (1, 2, 3, 4), {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}, [],
    ),
    "upsample nearest": ((9,), "Upsample", (1, 2, 3, 4), {"mode": "nearest"}, [floats(1, 1, 2, 2)]),
    "upsample linear": ((9,), "Upsample", (1, 2, 3, 4), {"mode": "linear"}, [floats(1, 1, 2, 2)]),
    "resize 10": ((10,), "Resize", (1, 2, 3, 4), {"mode": "nearest"}, [floats(1, 1, 2, 1.5)]),
    "resize 10 linear": ((10,), "Resize", (1, 2, 3, 4), {"mode": "linear"}, [floats(1, 1, 2, 2)]),
    "resize 11": ((11, 13), "Resize", (1, 2, 3, 4), {"mode": "linear"},
                  [floats(), floats(1, 1, 2, 2)]),
    "resize to sizes": ((13, 18), "Resize", (1, 2, 5, 4), {"mode": "linear"},
                        [None, None, ints(1, 2, 7, 9)]),
    "resize align corners": (
        (13,), "Resize", (1, 2, 5, 4),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [None, None, ints(1, 2, 9, 7)],
    ),
    "resize pytorch half pixel": (
        (13,), "Resize", (1, 2, 5, 4),
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        [None, None, ints(1, 2, 8, 1)],
    ),
    "resize odd scales": ((13,), "Resize", (1, 2, 5, 4), {"mode": "linear"},
                          [None, floats(1, 1, 0.7, 1.3)]),
    "resize cubic": ((13,), "Resize", (1, 2, 5, 4), {"mode": "cubic"}, [None, floats(1, 1, 2, 2)]),
    "slice attributes": ((7, 9), "Slice", (4, 5, 6), {"axes": [0, 2], "starts": [1, -3],
                                                      "ends": [2**31 - 1, -1]}, []),
    "slice in any order": ((7, 9), "Slice", (4, 5, 6), {"axes": [2, 0], "starts": [1, -3],
                                                        "ends": [5, -1]}, []),
    "slice from the end": ((9,), "Slice", (4, 5, 6), {"axes": [-1, 0], "starts": [-3, 1],
                                                      "ends": [-1, 5]}, []),
    "concat from the end": ((7, 9), "Concat", (4, 5), {"axis": -1}, [noise(4, 3)]),
    "slice inputs": ((10, 13), "Slice", (4, 5, 6), {},
                     [ints(3, 0), ints(-100, 5), ints(0, 2), ints(-2, 3)]),
    "squeeze attribute": ((11,), "Squeeze", (1, 3, 1, 2), {"axes": [0, 2]}, []),
    "squeeze in any order": ((7, 10, 11), "Squeeze", (1, 3, 1, 1), {"axes": [3, 0]}, []),
    "squeeze input": ((13,), "Squeeze", (1, 3, 1, 2), {}, [ints(0, -2)]),
    "squeeze all": ((13,), "Squeeze", (1, 3, 1, 2), {}, []),
    "unsqueeze attribute": ((11,), "Unsqueeze", (3, 2), {"axes": [0, 3]}, []),
    "unsqueeze input": ((13,), "Unsqueeze", (3, 2), {}, [ints(0, -1)]),
    "pad attributes": ((10,), "Pad", (1, 2, 3, 4), {"pads": [0, 0, 1, 2, 0, 0, 3, 1],
                                                    "value": 1.5}, []),
    "pad inputs": ((11, 13), "Pad", (1, 2, 3, 4), {},
                   [ints(0, 1, 1, 2, 0, 0, 3, 1), np.float32(-2)]),
    "pad reflect": ((11,), "Pad", (1, 1, 4, 5), {"mode": "reflect"},
                    [ints(0, 0, 1, 2, 0, 0, 3, 1)]),
    "pad edge": ((11,), "Pad", (1, 2, 4, 5), {"mode": "edge"}, [ints(0, 0, 1, 2, 0, 0, 3, 1)]),
    "pad axes": ((18,), "Pad", (1, 2, 4, 5), {}, [ints(1, 2, 3, 4), None, ints(-1, 2)]),
    "pad crops": ((11,), "Pad", (1, 2, 4, 5), {}, [ints(0, 0, -1, 2, 0, 0, 1, -2)]),
    "sum attribute": ((11,), "ReduceSum", (2, 3, 4), {"axes": [1, -1], "keepdims": 0}, []),
    "sum input": ((13,), "ReduceSum", (2, 3, 4), {"keepdims": 0}, [ints(1, -1)]),
    "mean attribute": ((11, 17), "ReduceMean", (2, 3, 4, 5), {"axes": [2, 3]}, []),
    "mean input": ((18,), "ReduceMean", (2, 3, 4, 5), {}, [ints(2, 3)]),
    "no reduction": ((18,), "ReduceMax", (2, 3), {"noop_with_empty_axes": 1}, [ints()]),
    "prelu channels": ((7, 9, 16), "PRelu", (1, 3, 4, 5), {}, [noise(3, 1, 1)]),
    "prelu scalar": ((16,), "PRelu", (1, 3, 4, 5), {}, [noise(1)]),
    "prelu rows": ((16,), "PRelu", (1, 3, 4, 5), {}, [noise(5)]),
    "gemm": ((7, 9, 11, 13), "Gemm", (4, 3), {"transA": 1, "transB": 1, "alpha": 0.5,
                                              "beta": 2.0}, [noise(6, 4), noise(3, 6)]),
    "gemm without bias": ((11,), "Gemm", (3, 4), {}, [noise(4, 6)]),
    "gemm scalar bias": ((13,), "Gemm", (3, 4), {}, [noise(4, 6), noise(1)]),
    "flatten": ((11, 13), "Flatten", (2, 3, 4), {"axis": -1}, []),
    "elu": ((7, 22), "Elu", (2, 3), {"alpha": 0.7}, []),
    "dropout attribute": ((7, 10), "Dropout", (2, 3), {"ratio": 0.5}, []),
    "dropout input": ((12, 13), "Dropout", (2, 3), {}, [np.float32(0.5), np.bool_(False)]),
    "hardswish": ((14,), "HardSwish", (2, 3), {}, []),
    "gelu tanh": ((20,), "Gelu", (2, 3), {"approximate": "tanh"}, []),
    "space to depth": ((13,), "SpaceToDepth", (1, 2, 4, 6), {"blocksize": 2}, []),
    "depth to space": ((11, 13), "DepthToSpace", (1, 8, 2, 3), {"blocksize": 2, "mode": "CRD"}, []),
    "lrn": ((13,), "LRN", (2, 6, 3, 3), {"size": 5, "alpha": 0.3, "bias": 2.0}, []),
    "group norm": ((21,), "GroupNormalization", (2, 6, 3, 3), {"num_groups": 2},
                   [noise(6), noise(6, seed=1)]),
    "layer norm": ((17,), "LayerNormalization", (2, 5, 6), {"axis": 1}, [noise(5, 6), noise(5, 6)]),
    "instance norm": ((9, 22), "InstanceNormalization", (2, 3, 4, 5), {}, [noise(3), noise(3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_versions_agree_with_onnxruntime(name: str) -> None:
    opsets, operator, shape, attributes, operands = CASES[name]
    for opset in opsets:
        constants = {f"c{i}": v for i, v in enumerate(operands) if v is not None}
        inputs = ["x", *(f"c{i}" if v is not None else "" for i, v in enumerate(operands))]
        node = helper.make_node(operator, inputs, ["y"], "node1", **attributes)
        model = make_model([node], {"x": shape}, ["y"], constants, opset=opset)
        if operator.endswith("OrEqual"):
            model.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
        feeds = {"x": noise(*shape)}
        wanted, actual = run_reference(model, feeds)[0], run(model, feeds)[0]
        assert wanted.shape == actual.shape, opset
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5, err_msg=str(opset))


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_split(opset: int) -> None:
    if opset < 13:
        node = helper.make_node("Split", ["x"], ["a", "b"], axis=1, split=[2, 3])
    elif opset < 18:
        node = helper.make_node("Split", ["x", "s"], ["a", "b"], axis=-1)
    else:
        node = helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    model = make_model([node], {"x": (2, 5)}, ["a", "b"], {"s": ints(2, 3)}, opset=opset)
    feeds = {"x": noise(2, 5)}
    for wanted, actual in zip(run_reference(model, feeds), run(model, feeds), strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_norm(opset: int) -> None:
    constants = {k: np.abs(noise(3, seed=i)) for i, k in enumerate("sbmv")}
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"])
    model = make_model([node], {"x": (2, 3, 4, 4)}, ["y"], constants, opset=opset)
    feeds = {"x": noise(2, 3, 4, 4)}
    np.testing.assert_allclose(
        run(model, feeds)[0], run_reference(model, feeds)[0], rtol=1e-4, atol=1e-5
    )


def test_limited_broadcasting_of_opset_6() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)
    model = make_model([node], {"x": (2, 3, 4)}, ["y"], {"b": noise(3)}, opset=6)
    result = run(model, {"x": noise(2, 3, 4)})[0]
    np.testing.assert_allclose(result, noise(2, 3, 4) + noise(3)[:, None], rtol=1e-6)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    ("opset", "attributes", "word"),
    [
        (6, {}, "is_test=0 in operator set 6"),
        (7, {"spatial": 0}, "spatial=0"),
        (8, {"spatial": 0}, "spatial=0"),
    ],
)
def test_old_forms_of_batch_norm_are_refused(
    opset: int, attributes: dict[str, Any], word: str, computed: bool
) -> None:
    shape = (3, 4, 4) if "spatial" in attributes else (3,)
    parameters = {name: np.abs(noise(*shape, seed=i)) for i, name in enumerate("sbmv")}
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], "norm1", **attributes)
    inputs = {"x": (1, 3, 4, 4), **(dict.fromkeys("sbmv", shape) if computed else {})}
    constants = {} if computed else parameters
    refuse(make_model([node], inputs, ["y"], constants, opset=opset), "norm1", word)


@pytest.mark.parametrize("opset", [6, 7, 14, 15])
def test_batch_norm_of_computed_parameters(opset: int) -> None:
    attributes = {"is_test": 1} if opset < 7 else {}
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], "norm1", **attributes)
    feeds = {name: np.abs(noise(3, seed=i)) for i, name in enumerate("sbmv")}
    shapes = {"x": (1, 3, 4, 4), **dict.fromkeys("sbmv", (3,))}
    x, (scale, shift, mean, variance) = (
        noise(1, 3, 4, 4),
        (v[:, None, None] for v in feeds.values()),
    )
    actual = run(make_model([node], shapes, ["y"], opset=opset), {"x": x, **feeds})[0]
    expected = (x - mean) / np.sqrt(variance.astype(float) + 1e-5) * scale + shift
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_slopes_of_channels_before_operator_set_7() -> None:
    """Also computed ones, where the last axis is as long."""
    node = helper.make_node("PRelu", ["x", "s"], ["y"], "node1")
    model = make_model([node], {"x": (1, 3, 3, 3), "s": (3,)}, ["y"], opset=6)
    x, slope = noise(1, 3, 3, 3), noise(3, seed=1)
    expected = np.where(x < 0, x * slope[:, None, None], x)
    np.testing.assert_allclose(run(model, {"x": x, "s": slope})[0], expected, rtol=1e-6)


def test_a_graph_is_exported_in_its_operator_set() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 10]>
    old (float[3] x, int64[2] i, float[2] u) => (float[3] y, float[3] z) {
        count = Constant <value = int64 {2}> ()
        going = Constant <value = bool {1}> ()
        y = Scatter <axis = 0> (x, i, u)
        z = Loop (count, going, y) <body = body (int64 n, bool c, float[3] s)
            => (bool d, float[3] t) { d = Identity (c) t = Mul (s, x) }>
    }""")
    exported = read_model(model).proto
    onnx.checker.check_model(exported)
    feeds = {"x": noise(3), "i": np.array([2, 0]), "u": noise(2, seed=1)}
    for actual, wanted in zip(
        run_reference(exported, feeds), run_reference(model, feeds), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)
