"""Programs, run by a plain interpreter, against onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, topi

from tests.frontend.onnx_runner import run_reference
from tests.networks.compare import random_inputs
from tests.program.executor import collected
from tests.small_network import small_network
from tvmconv.core.decision import KernelCall
from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.collect import collect
from tvmconv.program.program import Place, Program


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int]]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def check(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Program:
    """Equal to onnxruntime, up to rounding."""
    got = collected(model)
    for actual, wanted in zip(got.run(feeds), run_reference(model, feeds), strict=True):
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
    # through the text, as a manifest does it
    data = json.loads(json.dumps(got.program.to_json()))
    assert Program.from_json(data) == replace(got.program, constants=())
    return got.program


def test_network():
    model = small_network()
    program = check(model, random_inputs(model))
    assert {call.algorithm for call in program.calls} >= {"direct", "depthwise"}
    assert [call.record.layer for call in program.calls if call.record.operator == "conv2d"]
    assert program.calls[-1].operands[-1].place is Place.OUTPUT
    for call in program.calls:
        assert call.record.bytes == sum(operand.bytes for operand in call.operands)


def test_outputs_that_have_another_place_are_copied():
    """An input, a constant, a second name, a view of an input, a view of another output."""
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Identity", ["c"], ["constant"]),
        node("Exp", ["x"], ["y"]),
        node("Identity", ["y"], ["again"]),
        node("Flatten", ["y"], ["flat"]),
        node("Flatten", ["x"], ["view"]),
        node("Exp", ["flat"], ["later"]),
    ]
    names = ["same", "constant", "y", "again", "flat", "view", "later"]
    constant = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = model_of(nodes, {"x": (FLOAT, (2, 3, 4))}, dict.fromkeys(names, FLOAT), {"c": constant})
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    program = check(model, {"x": x})
    copies = [call for call in program.calls if call.record.kernel == ""]
    assert len(copies) == 5
    assert {call.operands[0].place for call in copies} == {
        Place.INPUT, Place.CONSTANT, Place.OUTPUT,
    }  # fmt: skip
    # one is read by a later kernel from the caller's memory, nothing is left for the arena
    assert program.arena_bytes == program.arena_bound == 0


def test_several_results_scalars_and_other_types():
    nodes = [
        node("TopK", ["x", "k"], ["values", "indices"], axis=1),
        node("Split", ["x"], ["left", "right"], axis=1),
        node("Less", ["left", "right"], ["less"]),
        node("ReduceSum", ["values"], ["total"], keepdims=0),
        node("Where", ["less", "left", "right"], ["least"]),
        node("Gather", ["table", "ids"], ["rows"]),
        node("Mul", ["scalar", "total"], ["product"]),
        node("CumSum", ["x", "one"], ["sums"], "running", exclusive=1),
    ]
    inputs = {"x": (FLOAT, (3, 8)), "ids": (INT64, (2,)), "scalar": (FLOAT, ())}
    outputs = {"indices": INT64, "less": BOOL, "least": FLOAT, "rows": INT64}
    outputs |= {"product": FLOAT, "sums": FLOAT}
    constants = {"k": np.array([3]), "one": np.array(1), "table": np.arange(40).reshape(5, 8)}
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)
    feeds = {"x": x, "ids": np.array([4, 1]), "scalar": np.array(2.5, np.float32)}
    program = check(model_of(nodes, inputs, outputs, constants), feeds)
    assert "running" in [call.record.layer for call in program.calls]


def test_network_without_any_kernel():
    model = model_of([node("Identity", ["x"], ["y"])], {"x": (BOOL, (3,))}, {"y": BOOL})
    program = check(model, {"x": np.array([True, False, True])})
    assert [call.record.operator for call in program.calls] == ["copy"]


def test_the_first_elements_are_no_view():
    nodes = [node("Slice", ["x", "start", "end", "start"], ["y"])]
    constants = {"start": np.array([0]), "end": np.array([2])}
    model = model_of(nodes, {"x": (FLOAT, (4, 3))}, {"y": FLOAT}, constants)
    check(model, {"x": np.arange(12, dtype=np.float32).reshape(4, 3)})


def test_empty_tensors():
    nodes = [
        node("Slice", ["x", "ends", "ends", "one"], ["none"]),
        node("Exp", ["none"], ["y"]),
        node("Concat", ["none", "x"], ["z"], axis=1),
    ]
    constants = {"ends": np.array([4]), "one": np.array([1])}
    model = model_of(nodes, {"x": (FLOAT, (2, 4))}, {"y": FLOAT, "z": FLOAT}, constants)
    check(model, {"x": np.ones((2, 4), np.float32)})


def test_unused_input_keeps_its_place():
    nodes = [node("Relu", ["b"], ["y"])]
    model = model_of(nodes, {"a": (FLOAT, (2,)), "b": (FLOAT, (3,))}, {"y": FLOAT})
    program = check(model, {"a": np.ones(2, np.float32), "b": np.array([-1, 0, 2], np.float32)})
    assert program.calls[0].operands[0].index == 1


def test_shared_constants_and_functions_are_kept_once():
    """Two layers of the same weights."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("Exp", ["b"], ["y"]),
    ]
    weight = np.random.default_rng(2).standard_normal((16, 16)).astype(np.float32) / 4
    model = model_of(nodes, {"x": (FLOAT, (4, 16))}, {"y": FLOAT}, {"w": weight})
    program = check(model, {"x": np.ones((4, 16), np.float32)})
    assert program.calls[0].record.kernel == program.calls[1].record.kernel
    assert program.constant_bytes == weight.nbytes


def test_code_that_needs_tvm_is_refused():
    x = relax.Var("x", relax.TensorType((2, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(topi.argsort, x))
        builder.emit_func_output(result)
    info = (TensorInfo("x", (2, 8), "float32"),)
    calls = [KernelCall("order", "argsort", "argsort")]
    with pytest.raises(ModelError, match=r"layer 'order': operator 'argsort' .*contrib.sort"):
        collect(builder.get(), info, info, calls)


def test_an_operator_without_a_function_is_refused():
    x = relax.Var("x", relax.TensorType((2, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.sort(x))
        builder.emit_func_output(result)
    info = (TensorInfo("x", (2, 8), "float32"),)
    with pytest.raises(ModelError, match="operator 'sort'"):
        collect(builder.get(), info, info)


def test_results_that_nothing_reads():
    """A call without any is left out; a part of a call's results has its memory all the same."""
    nodes = [
        node("Exp", ["x"], ["dead"]),
        node("TopK", ["x", "k"], ["values", "unread"]),
        node("Neg", ["values"], ["y"]),
    ]
    constants = {"k": np.array([2])}
    model = model_of(nodes, {"x": (FLOAT, (3, 8))}, {"y": FLOAT}, constants)
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)
    program = check(model, {"x": x})
    assert [len(call.operands) for call in program.calls] == [3, 2]


def test_symbols_are_none_of_the_c_library():
    nodes = [node("Exp", ["x"], ["y"]), node("Sqrt", ["y"], ["z"])]
    model = model_of(nodes, {"x": (FLOAT, (8,))}, {"y": FLOAT, "z": FLOAT})
    program = check(model, {"x": np.linspace(-1, 1, 8, dtype=np.float32)})
    assert all(call.record.kernel.endswith("_kernel") for call in program.calls)
