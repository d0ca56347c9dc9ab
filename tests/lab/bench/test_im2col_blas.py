"""Networks by numpy and its BLAS: the matrix of im2col, and all that has a form there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines.case import Case, Unsupported, read_case, read_reference, relative_error
from tvmconv.lab.baselines.im2col_blas import NumpyGraph, tap_windows
from tvmconv.lab.bench.cases import write_layer_case, write_model_case


def layer(text: str, folder: Path) -> Case:
    write_layer_case(folder, Conv2dWorkload.parse(text))
    return read_case(folder, {})


def test_a_row_of_the_matrix_is_what_a_tap_meets(tmp_path: Path) -> None:
    case = layer("mb2ic3ih9iw11oc4kh3kw2sh2sw3dh1ph2pw1", tmp_path)
    graph = NumpyGraph(case)
    graph.run()
    (columns,) = graph.matrices.values()
    # the second image was the last
    image = np.pad(case.inputs["data"][1], ((0, 0), (2, 2), (1, 1)))
    height, width = columns.shape[3:]
    for (c, r, s, y, x), value in np.ndenumerate(columns):
        assert value == image[c, y * 2 + r * 2, x * 3 + s * 2]
    assert (height, width) == graph.values[case.outputs[0]].shape[2:]


@pytest.mark.parametrize(
    "text",
    [
        "mb3ic5ih9oc7kh3ph1+bias+relu",
        "ic4ih7oc6kh3pt0pl1pb2pr1+clip(0,6)",
        "g4ic8ih9oc12kh5sh2ph2+add",
        # a tap that meets padding alone
        "ic2ih2oc3kh5ph2",
        "ic6ih8oc5kh1+bias",
        "ic6ih8oc5kh1sh2",
    ],
)
def test_layers_again_and_again(text: str, tmp_path: Path) -> None:
    """Padding stays zero from call to call."""
    case = layer(text, tmp_path)
    graph = NumpyGraph(case)
    for _ in range(2):
        graph.run()
        outputs = {name: graph.values[name] for name in case.outputs}
        assert relative_error(outputs, read_reference(tmp_path)) < 1e-6


def test_weights_and_plain_pixels_are_read_where_they_are(tmp_path: Path) -> None:
    graph = NumpyGraph(layer("ic6ih8oc5kh1", tmp_path))
    assert not graph.matrices
    (product,) = graph.calls
    assert np.shares_memory(product.args[0], graph.values["weight"])
    assert np.shares_memory(product.args[1], graph.values["data"])


def pool(op: str, **attrs: Any) -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], "pool", **attrs)
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 11, 8])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "pool", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3], "strides": [2, 2]},
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 1, 1]},
]


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        *(("MaxPool", window) for window in WINDOWS),
        ("MaxPool", {**WINDOWS[0], "ceil_mode": 1, "pads": [1, 1, 1, 1]}),
        *(("AveragePool", window) for window in WINDOWS),
        ("GlobalAveragePool", {}),
        ("Softmax", {"axis": 1}),
        ("Flatten", {}),
    ],
)
def test_other_layers(op: str, attrs: dict[str, Any], tmp_path: Path) -> None:
    check(pool(op, **attrs), tmp_path)


def check(model: onnx.ModelProto, folder: Path) -> None:
    onnx.save(model, folder / "model.onnx")
    write_model_case(folder, folder / "model.onnx", None)
    case = read_case(folder, {})
    graph = NumpyGraph(case)
    graph.run()
    want = ReferenceEvaluator(model).run(None, dict(case.inputs))
    for name, value in zip(case.outputs, want, strict=True):
        np.testing.assert_allclose(graph.values[name], value, rtol=1e-5, atol=1e-6)


def test_what_has_no_form_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="operator HardSwish"):
        NumpyGraph(layer("ic4ih5oc4kh3+hardswish", tmp_path))
    with pytest.raises(Unsupported, match="counts its padding"):
        check(pool("AveragePool", **WINDOWS[2], count_include_pad=1), tmp_path)
    with pytest.raises(Unsupported, match="rank 1"):
        attrs = {"kernel_shape": [3], "strides": [1], "dilations": [1], "pads": [0, 0]}
        list(tap_windows(np.zeros((1, 4, 5), np.float32), attrs, 1, 3))
