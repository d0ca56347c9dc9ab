"""Outputs that no kernel makes: inputs, constants, and what folds to constants."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tvmconv.core.errors import ModelError

_CONSTANTS = {"w": noise(2, 3)}
_NODES = {
    "Identity of the input": (helper.make_node("Identity", ["x"], ["y"]), ["y"]),
    "Identity of a constant": (helper.make_node("Identity", ["w"], ["y"]), ["y"]),
    "a folded constant": (helper.make_node("Add", ["w", "w"], ["y"]), ["y"]),
    "input beside a result": (helper.make_node("Relu", ["x"], ["y"]), ["y", "x"]),
    "constant beside a result": (helper.make_node("Relu", ["x"], ["y"]), ["w", "y"]),
    "a sum of one": (helper.make_node("Sum", ["x"], ["y"]), ["y"]),
}


@pytest.mark.parametrize("name", _NODES)
def test_output(name, tmp_path) -> None:
    node, outputs = _NODES[name]
    proto = make_model([node], {"x": (1, 3, 4, 5)}, outputs, _CONSTANTS)
    _agree(proto, tmp_path)


@pytest.mark.parametrize("output", ["x", "w"])
def test_a_graph_without_nodes(output, tmp_path) -> None:
    proto = make_model([], {"x": (1, 3, 4, 5)}, [output], _CONSTANTS)
    _agree(proto, tmp_path)


def _agree(proto, tmp_path) -> None:
    feeds = {"x": noise(1, 3, 4, 5, seed=1)}
    expected = run_reference(proto, feeds)
    model = tvmconv.build(proto, threads=1)
    saved = tvmconv.load(model.save(tmp_path / "model.so"))
    for compiled in (model, saved):
        results = compiled.run(feeds)
        for mine, theirs in zip(results, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        # they belong to the caller
        results[0][...] = 0
        np.testing.assert_array_equal(compiled.run(feeds)[0], expected[0])
        assert model.explain().to_json()


def test_shape_of_the_input(tmp_path) -> None:
    proto = make_model([helper.make_node("Shape", ["x"], ["y"])], {"x": (1, 3, 4, 5)}, ["y"])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    _agree(proto, tmp_path)


def test_scales_that_leave_nothing() -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], "shrink")
    scales = {"s": np.array([1, 1, 1e-9, 1], "float32")}
    with pytest.raises(ModelError, match=r"'shrink' \(Resize\).*empty"):
        tvmconv.build(make_model([node], {"x": (1, 3, 4, 5)}, ["y"], scales), threads=1)


@pytest.mark.parametrize("extent", [2**31, 2**40, 2**62])
def test_extents_beyond_32_bits(extent) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(ModelError, match="each size must be"):
        tvmconv.build(make_model([node], {"x": (1, extent)}, ["y"]), threads=1)


def test_names_that_are_no_text() -> None:
    node = helper.make_node("Relu", ["x"], ["out"])
    data = make_model([node], {"x": (1, 3)}, ["out"]).SerializeToString()
    with pytest.raises(ModelError):
        tvmconv.build(data.replace(b"out", b"o\xff\xfe"), threads=1)


@pytest.mark.parametrize("path", ["/no/such/model.onnx", "/proc/self/mem", "/", "x" * 5000, "\0"])
def test_paths_that_cannot_be_read(path) -> None:
    with pytest.raises(ModelError):
        tvmconv.build(path, threads=1)
