"""Patterns that become one attention, and patterns that do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

import tvmconv
from tests.emulating import needs_arm, run_model
from tests.graph.network import Net, check, prepared
from tvmconv.graph.rewrite.attention import ATTENTION
from tvmconv.report.explain import explain_report

HEADS = {"q_num_heads": 4, "kv_num_heads": 2}


def self_attention(net: Net, x: str, rows: int, heads: int, width: int) -> str:
    """Heads of one product, as timm writes them, with scaled queries."""
    size = heads * width
    joined = net.op("MatMul", x, net.random(size, 3 * size, scale=size**-0.5))
    shape = net.const(np.array([1, rows, 3, heads, width]))
    parts = net.op("Transpose", net.op("Reshape", joined, shape), perm=[2, 0, 3, 1, 4])
    ones = net.const(np.array([1, 1, 1]))
    first = net.const(np.array([0]))
    q, k, v = (
        net.op("Squeeze", part, first) for part in net.op("Split", parts, ones, outputs=3, axis=0)
    )
    scaled = net.op("Mul", q, net.const(np.float32(width**-0.5)))
    scores = net.op("MatMul", scaled, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    return net.op("Transpose", mixed, perm=[0, 2, 1, 3])


def masked_attention(net: Net, rows: int, columns: int) -> str:
    """Cross attention of grouped heads, with a scale after the product and two biases."""
    q, k = net.input("q", 2, 2, 3 * rows, 20), net.input("k", 2, 2, columns, 20)
    v = net.input("v", 2, 1, columns, 24)
    product = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Div", product, net.const(np.float32(4)))
    heads = net.op("Reshape", scores, net.const(np.array([2, 6, rows, columns])))
    mask = np.where(np.arange(columns) > np.arange(rows)[:, None] + 2, -np.inf, 0)
    biased = net.op(
        "Add", net.op("Add", net.random(6, 1, columns), heads), net.const(np.float32(mask))
    )
    weights = net.op("Softmax", biased, axis=-1)
    stacked = net.op("Reshape", weights, net.const(np.array([2, 2, 3 * rows, columns])))
    return net.op("MatMul", stacked, v)


def transposed_attention(net: Net, size: int) -> str:
    """Values by columns, and a transposed result, as YOLO writes it."""
    q, k, v = (
        net.input(name, 1, 2, width, size) for name, width in (("a", 16), ("b", 16), ("c", 33))
    )
    scores = net.op("MatMul", net.op("Transpose", q, perm=[0, 1, 3, 2]), k)
    weights = net.op("Softmax", net.op("Mul", scores, net.const(np.float32(0.25))), axis=-1)
    return net.op("MatMul", v, net.op("Transpose", weights, perm=[0, 1, 3, 2]))


def heads_of(net: Net, x: str, rows: int, heads: int, width: int) -> list[str]:
    """Queries, keys and values as slices of a batch of 2, as PyTorch's exporter writes them."""
    shape = net.const(np.array([2, rows, 3, heads, width]))
    parts = net.op("Transpose", net.op("Reshape", x, shape), perm=[2, 0, 3, 1, 4])
    ends = [net.const(np.array([n])) for n in range(4)]
    return [
        net.op("Squeeze", net.op("Slice", parts, ends[n], ends[n + 1], ends[0]), ends[0])
        for n in range(3)
    ]


def guarded_attention(net: Net, x: str, mask: str) -> str:
    """A scale of both operands, keys transposed by reshapes, and a guard of rows without keys."""
    q, k, v = heads_of(net, x, 33, 2, 16)
    root, zero = net.const(np.float32(0.5)), net.const(np.float32(0))
    flat = net.op("Reshape", k, net.const(np.array([-1, 33, 16])))
    keys = net.op("Transpose", flat, perm=[0, 2, 1])
    keys = net.op("Reshape", keys, net.const(np.array([2, 2, 16, 33])))
    scores = net.op("MatMul", net.op("Mul", q, root), net.op("Mul", keys, root))
    bias = net.op("Where", mask, zero, net.const(np.float32(-np.inf)))
    weights = net.op("Softmax", net.op("Add", scores, bias), axis=-1)
    return net.op("MatMul", net.op("Where", net.op("IsNaN", weights), zero, weights), v)


def selected_attention(net: Net, x: str, mask: str) -> str:
    """Scores of cosines with a factor for each head, and masks before and after the softmax."""
    q, k, v = heads_of(net, x, 33, 2, 16)
    product = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Add", net.op("Mul", product, net.random(2, 1, 1)), net.random(2, 33, 33))
    kept = net.op("Where", mask, scores, net.const(np.float32(-1e4)))
    weights = net.op("Softmax", kept, axis=-1)
    dropped = net.op("Where", net.op("Not", mask), net.const(np.float32(0)), weights)
    return net.op("MatMul", dropped, v)


def test_masks_slices_and_reshapes_are_part_of_attention():
    net = Net(2, 33, 96)
    limit = np.zeros((33, 33), np.float32)
    limit[3] = np.inf
    mask = net.op("Greater", net.input("m", 2, 1, 33, 33), net.const(limit))
    model = net.model(guarded_attention(net, "x", mask), selected_attention(net, "x", mask))
    operators = [node.op for node in prepared(model).nodes]
    assert operators.count(ATTENTION) == 2
    assert set(operators) <= {ATTENTION, "greater", "logical_xor", "where", "reshape"}
    check(model)


def test_attention_of_half_precision():
    half = TensorProto.FLOAT16
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Softmax", ["c"], ["w"], axis=-1),
        helper.make_node("Cast", ["w"], ["h"], to=half),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
    ]
    shapes = {"q": [2, 33, 16], "k": [2, 16, 40], "v": [2, 40, 16], "y": [2, 33, 16]}
    values = [helper.make_tensor_value_info(n, half, shape) for n, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", values[:3], values[3:])
    opset = [helper.make_opsetid("", 17)]
    assert fused(helper.make_model(graph, opset_imports=opset, ir_version=9)) == 1


def test_attention_is_one_call():
    net = Net(1, 49, 72)
    outputs = [self_attention(net, "x", 49, 3, 24), masked_attention(net, 35, 37)]
    model = net.model(*outputs, transposed_attention(net, 40))
    operators = [node.op for node in prepared(model).nodes]
    assert operators.count(ATTENTION) == 3
    assert not {"nn.softmax", "split", "multiply"} & set(operators)
    assert_calls_are_explained(check(model, threads=2))


def test_attention_on_one_thread():
    net = Net(1, 1)
    assert_calls_are_explained(check(net.model(transposed_attention(net, 40)), threads=1))


def assert_calls_are_explained(built: tvmconv.CompiledModel) -> None:
    count = [call.operator for call in built.calls].count("attention")
    (table,) = (t for t in explain_report(built).tables if t.name == "attention")
    assert len(table.rows) == count > 0 and "in the cache" in table.rows[0]["reason"]


def fused(model) -> int:
    """The number of attentions in a graph."""
    return [node.op for node in prepared(model).nodes].count(ATTENTION)


def test_scores_that_others_read_are_stored():
    net = Net(1, 2, 49, 32)
    scores = net.op(
        "MatMul", "x", net.op("Transpose", net.input("k", 1, 2, 64, 32), perm=[0, 1, 3, 2])
    )
    weights = net.op("Softmax", scores, axis=-1)
    result = net.op("MatMul", weights, net.input("v", 1, 2, 64, 32))
    assert fused(net.model(result)) == 1
    assert fused(net.model(result, weights)) == 0
    assert fused(net.model(result, scores)) == 0


def test_softmax_over_rows_and_single_rows_are_separate():
    for rows, axis in ((49, 2), (1, 3)):
        net = Net(1, 2, rows, 32)
        scores = net.op("MatMul", "x", net.input("k", 1, 2, 32, 64))
        weights = net.op("Softmax", scores, axis=axis)
        assert fused(net.model(net.op("MatMul", weights, net.input("v", 1, 2, 64, 32)))) == 0


def test_the_attention_operator_is_fused():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Attention", ["q", "k", "v"], ["causal"], "a", is_causal=1, **HEADS),
        helper.make_node("Attention", ["q", "k", "v"], ["plain"], "b", **HEADS),
    ]
    inputs = [("q", 128), ("k", 64), ("v", 64)]
    graph = helper.make_graph(
        nodes,
        "net",
        [value(name, TensorProto.FLOAT, [1, 49, width]) for name, width in inputs],
        [value(name, TensorProto.FLOAT, [1, 49, 128]) for name in ("causal", "plain")],
    )
    opset = [helper.make_opsetid("", 23)]
    assert fused(helper.make_model(graph, opset_imports=opset, ir_version=10)) == 2


@needs_arm
def test_attention_on_arm(tmp_path: Path):
    net = Net(1, 49, 72)
    model = net.model(self_attention(net, "x", 49, 3, 24))
    x = np.random.default_rng(1).standard_normal((1, 49, 72)).astype("float32")
    built = tvmconv.build(model, "aarch64", threads=2, log="none")
    assert "attention" in [call.operator for call in built.calls]
    (actual,) = run_model(built, tmp_path, x)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(actual, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
