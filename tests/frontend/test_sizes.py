"""Results whose size depends on the data, compared with onnxruntime and onnx's node cases."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.node_cases import cases_of
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import ModelError

node = helper.make_node
Arrays = Mapping[str, np.ndarray]
CASES = [
    case
    for module in ("compress", "nonmaxsuppression", "nonzero", "unique")
    for case in cases_of(module)
    if "bfloat16" not in case.name and "string" not in case.name
]


def model(
    nodes: list[onnx.NodeProto], feeds: Arrays, outputs: list[str], constants: Arrays
) -> onnx.ModelProto:
    """A model whose outputs have no declared shapes."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "sizes",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def check(compiled: Any, made: onnx.ModelProto, feeds: Arrays) -> None:
    """Results and their shapes are onnxruntime's."""
    results = compiled.run(dict(feeds))
    for result, wanted in zip(results, run_reference(made, feeds), strict=True):
        assert result.shape == wanted.shape
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_node_cases(case: Any) -> None:
    operands, expected = case.data_sets[0]
    results = tvmconv.build(case.model).run(*operands)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def boxes(count: int, classes: int) -> dict[str, np.ndarray]:
    """Boxes that overlap, and scores many of which are equal."""
    random = np.random.default_rng(count)
    corner = random.random((1, count, 2))
    size = random.random((1, count, 2)) / 2
    scores = random.integers(0, 12, (1, classes, count)) / 12
    return {
        "boxes": np.concatenate([corner, corner + size], -1).astype(np.float32),
        "scores": scores.astype(np.float32),
    }


def detector() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The tail of a detector: rows of box, score and class."""
    feeds = {**boxes(50, 3), "limit": np.array([0.4], np.float32)}
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "limit"], ["kept"]),
        node("Gather", ["kept", "first_last"], ["where_box"], axis=1),
        node("GatherND", ["boxes", "where_box"], ["box"]),
        node("GatherND", ["scores", "kept"], ["score"]),
        node("Unsqueeze", ["score", "one"], ["score_column"]),
        node("Slice", ["kept", "one", "two", "one"], ["class"]),
        node("Cast", ["class"], ["class_column"], to=TensorProto.FLOAT),
        node("Concat", ["box", "score_column", "class_column"], ["rows"], axis=1),
        node("Shape", ["rows"], ["shape"]),
        node("ReduceMax", ["rows"], ["largest"], axes=[0], keepdims=1),
        node("Sub", ["largest", "rows"], ["below"]),
    ]
    constants = {
        "most": np.array([9]),
        "iou": np.array([0.5], np.float32),
        "first_last": np.array([0, 2]),
        "one": np.array([1]),
        "two": np.array([2]),
    }
    return model(nodes, feeds, ["kept", "rows", "shape", "below"], constants), feeds


def test_detector() -> None:
    made, feeds = detector()
    compiled = tvmconv.build(made)
    kept = compiled.outputs[0]
    assert (kept.shape, kept.varying) == ((27, 3), 0)
    check(compiled, made, feeds)
    few = {**feeds, "limit": np.array([0.9], np.float32)}
    destinations = [np.empty(info.shape, info.dtype) for info in compiled.outputs]
    found = compiled.run_into(few, destinations)
    assert found["rows"].shape == run_reference(made, few)[1].shape
    assert np.shares_memory(found["rows"], destinations[1])
    assert compiled.bind(few).outputs()["rows"].shape == found["rows"].shape


def test_example_of_a_bundle(tmp_path: Path) -> None:
    """The C program describes and writes outputs of the actual shape."""
    made, feeds = detector()
    tvmconv.build(made).bundle(tmp_path / "bundle")
    files = []
    for name, value in feeds.items():
        value.tofile(tmp_path / name)
        files.append(tmp_path / name)
    command = ["sh", tmp_path / "bundle/run.sh", "-o", tmp_path, "-r", "1", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept, rows = run_reference(made, feeds)[:2]
    assert f"output kept int64 {len(kept)} 3\n" in done.stdout
    written = np.fromfile(tmp_path / "1.out", np.float32).reshape(rows.shape)
    np.testing.assert_allclose(written, rows, rtol=1e-6)


def test_nothing_is_found() -> None:
    feeds = {"x": np.ones((2, 3, 4), np.float32), "level": np.array(2, np.float32)}
    nodes = [
        node("Greater", ["x", "level"], ["mask"]),
        node("NonZero", ["mask"], ["places"]),
        node("Transpose", ["places"], ["tuples"]),
        node("GatherND", ["x", "tuples"], ["elements"]),
    ]
    made = model(nodes, feeds, ["places", "elements"], {})
    compiled = tvmconv.build(made)
    for level in (2.0, 0.0):
        check(compiled, made, {**feeds, "level": np.array(level, np.float32)})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_not_zero(dtype: str) -> None:
    feeds = {"x": np.array([0, np.nan, -0.0, 1, -np.inf, 1e-7], dtype)}
    made = model([node("NonZero", ["x"], ["y"])], feeds, ["y"], {})
    np.testing.assert_array_equal(tvmconv.build(made).run(feeds)[0], [[1, 3, 4, 5]])


@pytest.mark.parametrize("count", [0, 2, 5])
def test_computed_number_of_largest_elements(count: int) -> None:
    feeds = {"x": np.random.default_rng(0).random((3, 5), np.float32), "k": np.array([count])}
    nodes = [
        node("Min", ["k", "four"], ["few"]),
        node("TopK", ["x", "few"], ["values", "indices"], axis=1),
    ]
    made = model(nodes, feeds, ["values", "indices"], {"four": np.array([4])})
    compiled = tvmconv.build(made)
    assert [info.shape for info in compiled.outputs] == [(3, 4), (3, 4)]
    check(compiled, made, feeds)


def test_sizes_as_shapes() -> None:
    """Graphs that exporters of masks write: a second mask, ranges, joined parts, and padding."""
    feeds = {"x": np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)}
    nodes = [
        node("ReduceSum", ["x", "one"], ["sums"], keepdims=0),
        node("Greater", ["sums", "zero"], ["mask"]),
        node("Compress", ["x", "mask"], ["some"], axis=0),
        node("Shape", ["some"], ["shape"]),
        node("Gather", ["shape", "first"], ["count"], axis=0),
        node("Squeeze", ["count"], ["end"]),
        node("Range", ["start", "end", "step"], ["numbers"]),
        node("Expand", ["zero", "shape"], ["zeros"]),
        node("Concat", ["some", "zeros", "x"], ["joined"], axis=0),
        node("Concat", ["count", "minus"], ["target"], axis=0),
        node("Reshape", ["some", "target"], ["reshaped"]),
        node("Sub", ["forty", "count"], ["missing"]),
        node("Concat", ["nothing", "missing", "first"], ["pads"], axis=0),
        node("Pad", ["some", "pads"], ["padded"]),
        node("Slice", ["x", "first", "count"], ["head"]),
    ]
    constants = {
        "one": np.array([1]),
        "zero": np.float32(0),
        "first": np.array([0]),
        "start": np.array(0),
        "step": np.array(1),
        "minus": np.array([-1]),
        "forty": np.array([40]),
        "nothing": np.array([0, 0]),
    }
    outputs = ["numbers", "joined", "reshaped", "padded", "head"]
    made = model(nodes, feeds, outputs, constants)
    compiled = tvmconv.build(made)
    assert compiled.outputs[3].varying is None
    check(compiled, made, feeds)
    few = {"x": -np.abs(feeds["x"])}
    few["x"][7] = 1
    check(compiled, made, few)


def test_reshaped_rows() -> None:
    """The axis that varies is the one whose size is inferred."""
    feeds = {"x": np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)}
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("Flatten", ["rows"], ["flat"], axis=0),
        node("Flatten", ["rows"], ["long"], axis=2),
        node("Reshape", ["rows", "line"], ["line_rows"]),
        node("Reshape", ["rows", "one_line"], ["one_line_rows"]),
        node("Reshape", ["rows", "same"], ["same_rows"]),
    ]
    shapes = {"line": [-1], "one_line": [1, -1], "same": [0, -1]}
    constants = {name: np.array(shape) for name, shape in shapes.items()}
    outputs = ["flat", "long", "line_rows", "one_line_rows", "same_rows"]
    made = model(nodes, feeds, outputs, constants)
    x = feeds["x"]
    check(tvmconv.build(made), made, {"x": np.where(x > 0, x, 0)})
    # the second row begins after the elements that exist
    two = model([*nodes[:2], node("Reshape", ["rows", "two"], ["y"], "pair")], feeds, ["y"],
                {"two": np.array([2, -1])})  # fmt: skip
    with pytest.raises(ModelError, match=r"'pair'.*depends on the data"):
        tvmconv.build(two)


def test_reductions_that_keep_the_size() -> None:
    feeds = {"x": np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)}
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("ReduceSum", ["places"], ["all"], noop_with_empty_axes=1),
        node("ReduceSum", ["places", "none"], ["same"], noop_with_empty_axes=1),
        node("ReduceSum", ["places", "none"], ["sum"]),
    ]
    made = model(nodes, feeds, ["all", "same", "sum"], {"none": np.zeros(0, np.int64)})
    check(tvmconv.build(made), made, {"x": np.where(feeds["x"] > 0, feeds["x"], 0)})
    last = node("ArgMax", ["places"], ["y"], "last", axis=1, select_last_index=1)
    with pytest.raises(ModelError, match=r"'last'.*depends on the data"):
        tvmconv.build(model([nodes[0], last], feeds, ["y"], {}))


def test_masks_of_exporters() -> None:
    """Each use of a mask has a NonZero of its own, and each use of boxes a slice."""
    feeds = {**boxes(60, 1), "level": np.array(0.5, np.float32)}
    nodes = [
        node("Squeeze", ["boxes", "start"], ["box"]),
        node("Squeeze", ["scores", "both"], ["score"]),
        node("Greater", ["score", "level"], ["mask"]),
    ]
    for name in ("box", "score"):
        nodes += [
            node("NonZero", ["mask"], [f"{name}_places"]),
            node("Transpose", [f"{name}_places"], [f"{name}_tuples"]),
            node("GatherND", [name, f"{name}_tuples"], [f"{name}_some"]),
        ]
    nodes += [
        node("Unsqueeze", ["box_some", "start"], ["batch"]),
        node("Unsqueeze", ["score_some", "both"], ["classes"]),
        node("NonMaxSuppression", ["batch", "classes", "all", "iou"], ["rows"]),
        node("Gather", ["rows", "last"], ["kept"], axis=1),
        node("Gather", ["box_some", "kept"], ["box_kept"]),
        node("Gather", ["score_some", "kept"], ["score_kept"]),
        node("Slice", ["box_kept", "start", "ten"], ["box_best"]),
        node("Slice", ["score_kept", "start", "ten"], ["score_best"]),
        node("Unsqueeze", ["score_best", "one"], ["score_column"]),
        node("Concat", ["box_best", "score_column"], ["y"], axis=1),
    ]
    constants = {
        "start": np.array([0]),
        "one": np.array([1]),
        "both": np.array([0, 1]),
        "all": np.array([2**63 - 1]),
        "iou": np.array([0.4], np.float32),
        "last": np.array(2),
        "ten": np.array([10]),
    }
    made = model(nodes, feeds, ["y"], constants)
    compiled = tvmconv.build(made)
    assert compiled.outputs[0].shape == (10, 5)
    for level in (0.5, 0.9, 1.0):
        check(compiled, made, {**feeds, "level": np.array(level, np.float32)})


def test_refusals() -> None:
    """The message names the value and the cut."""
    feeds = {"x": np.ones((4, 4), np.float32)}
    nodes = [
        node("NonZero", ["x"], ["places"], "find"),
        node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        node("MatMul", ["numbers", "x"], ["y"], "product"),
    ]
    nodes[2].input[1] = "fixed"
    made = model(nodes, feeds, ["y"], {"fixed": np.ones((16, 2), np.float32)})
    with pytest.raises(ModelError, match=r"product.*'numbers'.*depends on the data.*--outputs num"):
        tvmconv.build(made)
    with pytest.raises(ModelError, match="does not support"):
        tvmconv.build(detector()[0], target="cuda:sm_90")
