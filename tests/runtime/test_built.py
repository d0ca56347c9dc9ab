"""A model from ``tvmconv.build`` through the whole runtime, against onnxruntime."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tvmconv
from tvmconv.model import CompiledModel

INPUT = (1, 3, 20, 20)


def convolutions() -> ModelProto:
    """Two convolutions, a pooling and a residual between them."""
    generator = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> TensorProto:
        values = generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(values.astype("float32"), name)

    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second", pads=[1] * 4),
        helper.make_node("Add", ["c", "b"], ["sum"], "add"),
        helper.make_node("GlobalAveragePool", ["sum"], ["pooled"], "pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "two_convolutions",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, INPUT)],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, (1, 24, 20, 20)),
            helper.make_tensor_value_info("pooled", TensorProto.FLOAT, (1, 24, 1, 1)),
        ],
        [weight("w1", 24, 3, 3, 3), weight("b1", 24), weight("w2", 24, 24, 3, 3)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def built() -> CompiledModel:
    return tvmconv.build(convolutions())


def test_values_and_record_survive_saving(built: CompiledModel, tmp_path: Path) -> None:
    image = np.random.default_rng(1).standard_normal(INPUT).astype("float32")
    session = onnxruntime.InferenceSession(convolutions().SerializeToString())
    expected = session.run(None, {"image": image})
    loaded = tvmconv.load(built.save(tmp_path / "two.so"))
    for model in (built, loaded):
        outputs = model.run({"image": image})
        assert outputs.names == ("sum", "pooled")
        for reference, actual in zip(expected, outputs, strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-5)
    assert loaded.decisions == built.decisions
    assert loaded.calls == built.calls
    assert [decision.layer for decision in loaded.decisions] == ["first", "second"]
    assert str(loaded.explain()) == str(built.explain())


def test_bound_calls_keep_the_weights_of_a_model_that_is_gone() -> None:
    image = np.random.default_rng(1).standard_normal(INPUT).astype("float32")
    model = tvmconv.build(convolutions())
    expected = model.run({"image": image})[0]
    call = model.bind({"image": image})
    weights = weakref.ref(model._ready()._weights)
    del model
    gc.collect()
    assert weights() is not None
    np.testing.assert_array_equal(call.outputs()[0], expected)
    del call
    gc.collect()
    assert weights() is None


def test_profile_names_the_layers(built: CompiledModel) -> None:
    profile = built.profile(repeat=2)
    assert [k.call for k in profile] == list(built.calls)
    layers = [k.call.layer for k in profile if k.call.workload]
    assert layers == ["first", "second"]
    assert all(k.gflops > 0 for k in profile if k.call.workload)


def test_memory_report_counts_packed_weights() -> None:
    weights = 4 * (24 * 3 * 9 + 24 + 24 * 24 * 9)
    built = tvmconv.build(convolutions(), memory_budget=0)
    assert weights <= built.memory.constant_bytes <= 3 * weights
    assert built.memory.output_bytes == 4 * (24 * 400 + 24)
    assert built.memory.arena_bytes > built.memory.output_bytes
    assert built.memory.workspace_bytes == 0


def test_memory_report_counts_the_largest_workspace(built: CompiledModel) -> None:
    algorithms = [decision.chosen.workspace_bytes for decision in built.decisions]
    assert built.memory.workspace_bytes >= max(algorithms)
    forced = tvmconv.build(convolutions(), overrides={"second": {"algorithm": "winograd"}})
    assert forced.memory.workspace_bytes >= forced.decisions[1].chosen.workspace_bytes > 0


def test_threads_do_not_change_the_result(built: CompiledModel, tmp_path: Path) -> None:
    image = np.random.default_rng(2).standard_normal(INPUT).astype("float32")
    path = built.save(tmp_path / "two.so")
    one, two = (tvmconv.load(path, threads=count).run(image) for count in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_saved_model_tells_within_which_limits_it_was_built(tmp_path):
    given = {"algorithms": ["direct", "winograd"], "error_budget": 2e-5, "memory_budget": 0}
    entries = {"*": {"algorithm": "direct"}}
    built = tvmconv.build(convolutions(), **given, overrides=entries, log="none")
    policy = tvmconv.load(built.save(tmp_path / "limits.so")).manifest.policy
    assert {name: policy[name] for name in given} == given
    assert (policy["overrides"], policy["logs"]) == ({"*": "direct"}, [])
    assert str(tmp_path) not in (tmp_path / "limits.json").read_text()
