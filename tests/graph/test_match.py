"""Which convolution takes which epilogue."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tests.graph.network import Net, convs, epilogues, other_ops, prepared
from tvmconv.graph.ir import Graph, Value, constant, make_node
from tvmconv.graph.match import DENSE
from tvmconv.graph.rewrite.activations import canonical_activations, epilogue_step


def test_bias_and_relu():
    net = Net(1, 16, 8, 8)
    graph = prepared(net.model(net.op("Relu", net.conv("x", 16, 16))))
    assert epilogues(graph) == ["bias+relu"]
    assert other_ops(graph) == []


def test_no_bias():
    net = Net(1, 16, 8, 8)
    assert epilogues(prepared(net.model(net.conv("x", 16, 16, bias=False)))) == [""]


@pytest.mark.parametrize(
    ("operators", "taken", "left"),
    [
        (["Tanh", "LeakyRelu", "Sigmoid"], "tanh", ["nn.leakyrelu", "sigmoid"]),
        (["Sigmoid", "Relu", "Tanh"], "sigmoid+relu", ["tanh"]),
        (["LeakyRelu", "Tanh", "Relu"], "leakyrelu(0.01)+tanh+relu", []),
    ],
)
def test_no_kernel_repeats_a_curve(operators: list[str], taken: str, left: list[str]):
    net = Net(1, 16, 8, 8)
    y = net.conv("x", 16, 16)
    for operator in operators:
        y = net.op(operator, y)
    graph = prepared(net.model(y))
    assert epilogues(graph) == [f"bias+{taken}"]
    assert other_ops(graph) == left


@pytest.mark.parametrize("reverse", [False, True])
def test_residual_in_both_operand_orders(reverse: bool):
    net = Net(1, 16, 8, 8)
    first = net.op("Relu", net.conv("x", 16, 16))
    second = net.conv(first, 16, 16)
    operands = [first, second] if reverse else [second, first]
    graph = prepared(net.model(net.op("Relu", net.op("Add", *operands))))
    assert epilogues(graph) == ["bias+relu", "bias+add+relu"]
    before, after = convs(graph)
    assert after.args[-1] is before.output


def test_of_two_added_convolutions_the_later_takes_the_addition():
    net = Net(1, 16, 8, 8)
    left, right = net.conv("x", 16, 32), net.conv("x", 16, 32, k=1)
    graph = prepared(net.model(net.op("Add", left, right)))
    assert epilogues(graph) == ["bias", "bias+add"]
    assert convs(graph)[1].attrs["workload"].kernel_h == 1


def test_activation_before_the_residual():
    net = Net(1, 16, 8, 8)
    y = net.op("Relu", net.conv("x", 16, 16))
    assert epilogues(prepared(net.model(net.op("Add", y, "x")))) == ["bias+relu+add"]


def test_result_with_two_readers_is_not_fused():
    net = Net(1, 16, 8, 8)
    y = net.conv("x", 16, 16)
    graph = prepared(net.model(net.op("Relu", y), net.op("Tanh", y)))
    assert epilogues(graph) == ["bias"]
    assert sorted(other_ops(graph)) == ["nn.relu", "tanh"]


def test_result_that_is_an_output_is_not_fused():
    net = Net(1, 16, 8, 8)
    y = net.conv("x", 16, 16)
    graph = prepared(net.model(y, net.op("Relu", y)))
    assert epilogues(graph) == ["bias"]
    assert other_ops(graph) == ["nn.relu"]


def test_sum_with_itself_is_not_a_residual():
    net = Net(1, 16, 8, 8)
    y = net.op("Tanh", net.conv("x", 16, 16))
    graph = prepared(net.model(net.op("Add", y, y)))
    assert epilogues(graph) == ["bias+tanh"]


def test_residual_of_another_shape_is_not_fused():
    net = Net(1, 16, 8, 8)
    net.input("v", 1, 16, 1, 1)
    graph = prepared(net.model(net.op("Add", net.conv("x", 16, 16), "v")))
    assert epilogues(graph) == ["bias"]
    assert other_ops(graph) == ["add"]


def test_only_one_residual():
    net = Net(1, 16, 8, 8)
    net.input("y", 1, 16, 8, 8)
    total = net.op("Add", net.op("Add", net.conv("x", 16, 16), "x"), "y")
    graph = prepared(net.model(total))
    assert epilogues(graph) == ["bias+add"]
    assert other_ops(graph) == ["add"]


def test_clip_leaky_sigmoid_and_silu():
    net = Net(1, 16, 8, 8)
    zero, six = net.const(np.float32(0)), net.const(np.float32(6))
    y = net.op("Clip", net.conv("x", 16, 16), zero, six)
    y = net.op("LeakyRelu", net.conv(y, 16, 16), alpha=0.125)
    y = net.op("Sigmoid", net.conv(y, 16, 16))
    y = net.conv(y, 16, 16)
    y = net.op("Mul", y, net.op("Sigmoid", y))
    graph = prepared(net.model(y))
    expected = ["bias+clip(0,6)", "bias+leakyrelu(0.125)", "bias+sigmoid", "bias+silu"]
    assert epilogues(graph) == expected


def test_gelu_of_an_image_and_of_tokens():
    net = Net(1, 16, 4, 4)
    one, half = net.const(np.float32(1)), net.const(np.float32(0.5))

    def gelu(y: str) -> str:
        curve = net.op("Erf", net.op("Mul", y, net.const(np.float32(0.5**0.5))))
        return net.op("Mul", net.op("Mul", y, net.op("Add", curve, one)), half)

    y = net.op("Reshape", gelu(net.conv("x", 16, 16)), net.const(np.array([16, 16])))
    graph = prepared(net.model(gelu(net.op("MatMul", y, net.random(16, 16)))))
    steps = [node.attrs["epilogue"] for node in graph.nodes if node.op == DENSE]
    assert epilogues(graph) == ["bias+gelu"] and [[str(s) for s in e] for e in steps] == [["gelu"]]


def test_hard_activations():
    net = Net(1, 16, 8, 8)
    y = net.op("HardSwish", net.conv("x", 16, 16))
    y = net.op("HardSigmoid", net.conv(y, 16, 16), alpha=0.25, beta=0.5)
    assert epilogues(prepared(net.model(y))) == ["bias+hardswish", "bias+hardsigmoid(0.25,0.5)"]


def test_one_sided_bounds():
    net = Net(1, 16, 8, 8)
    y = net.op("Min", net.conv("x", 16, 16), net.const(np.float32(2)))
    y = net.op("Max", net.conv(y, 16, 16), net.const(np.float32(0)))
    assert epilogues(prepared(net.model(y))) == ["bias+clip(-inf,2)", "bias+relu"]


def test_bounds_one_after_the_other_are_one_clip():
    bounds = [-np.inf, -1.0, 0.0, 2.0, np.inf]
    values = np.linspace(-3, 3, 13)
    for kinds in itertools.product(("Max", "Min"), repeat=3):
        for limits in itertools.product(bounds, repeat=3):
            x = Value((1, 4), "float32", "x")
            nodes, last, expected = [], x, values
            for kind, limit in zip(kinds, limits, strict=True):
                op = "maximum" if kind == "Max" else "minimum"
                nodes.append(make_node(op, [last, constant(np.float32(limit))], (1, 4)))
                last, expected = nodes[-1].output, getattr(np, op)(expected, limit)
            graph = Graph([x], nodes, [last])
            canonical_activations(graph)
            graph.remove_dead()
            (node,) = graph.nodes
            step = epilogue_step(node)
            assert step is not None
            low, high = step.params if step.kind == "clip" else (0.0, np.inf)
            np.testing.assert_array_equal(np.minimum(np.maximum(values, low), high), expected)


def test_a_bound_that_something_else_reads_stays():
    net = Net(1, 16, 8, 8)
    low = net.op("Relu", net.conv("x", 16, 16))
    y = net.op("Min", low, net.const(np.float32(6)))
    graph = prepared(net.model(net.op("Add", low, y)))
    assert epilogues(graph) == ["bias+relu"]
    assert other_ops(graph) == ["clip", "add"]


def gate(net: Net, x: str, shift: float = 3, high: float = 6) -> str:
    shifted = net.op("Add", x, net.const(np.float32(shift)))
    return str(net.op("Clip", shifted, net.const(np.float32(0)), net.const(np.float32(high))))


def divided(net: Net, x: str, by: float = 6) -> str:
    return str(net.op("Div", x, net.const(np.float32(by))))


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        # the number that is added goes into the bias where nothing else reads the sum
        (lambda n, y: divided(n, gate(n, y)), "bias+hardsigmoid(0.166666672,0)"),
        (lambda n, y: divided(n, gate(n, y, 1, 4), 4), "bias+hardsigmoid(0.25,0)"),
        (lambda n, y: n.op("Mul", y, divided(n, gate(n, y))), "bias+hardswish"),
        (lambda n, y: n.op("Mul", divided(n, gate(n, y)), y), "bias+hardswish"),
        (lambda n, y: divided(n, n.op("Mul", gate(n, y), y)), "bias+hardswish"),
        (lambda n, y: n.op("Mul", n.const(np.float32(1 / 6)), n.op("Mul", y, gate(n, y))),
         "bias+hardswish"),
    ],
)  # fmt: skip
def test_hard_activations_in_several_operators(
    activation: Callable[[Net, str], str], expected: str
):
    net = Net(1, 16, 8, 8)
    graph = prepared(net.model(activation(net, net.conv("x", 16, 16))))
    assert epilogues(graph) == [expected]
    assert other_ops(graph) == []


@pytest.mark.parametrize(
    "activation",
    [
        lambda n, y: divided(n, gate(n, y), 5),
        lambda n, y: divided(n, n.op("Mul", y, gate(n, y, 2))),
        lambda n, y: divided(n, n.op("Mul", y, gate(n, "x"))),
        lambda n, y: n.op("Div", n.const(np.float32(6)), gate(n, y)),
    ],
)
def test_almost_hard_activations(activation: Callable[[Net, str], str]):
    net = Net(1, 16, 8, 8)
    graph = prepared(net.model(activation(net, net.conv("x", 16, 16))))
    assert epilogues(graph) in (["bias"], ["bias+clip(0,6)"])
    assert other_ops(graph)


def test_channel_constants_fold_into_weight_and_bias():
    net = Net(1, 16, 8, 8)
    scale, shift = net.random(1, 24, 1, 1), net.random(24, 1, 1)
    y = net.op("Sub", net.op("Mul", net.conv("x", 16, 24), scale), shift)
    graph = prepared(net.model(net.op("Relu", y)))
    assert epilogues(graph) == ["bias+relu"]
    assert other_ops(graph) == []


def test_constant_of_another_shape_does_not_fold():
    net = Net(1, 16, 8, 8)
    y = net.op("Mul", net.conv("x", 16, 16), net.random(8, 8))
    graph = prepared(net.model(y))
    assert epilogues(graph) == ["bias"]
    assert other_ops(graph) == ["multiply"]


def test_batch_normalization_folds():
    net = Net(1, 8, 6, 6)
    y = net.conv("x", 8, 12, bias=False)
    statistics = [net.random(12), net.random(12), net.random(12)]
    variance = net.const(np.abs(np.random.default_rng(0).standard_normal(12)).astype("float32"))
    y = net.op("BatchNormalization", y, *statistics, variance)
    graph = prepared(net.model(net.op("Relu", y)))
    assert epilogues(graph) == ["bias+relu"]


def test_dense_takes_bias_and_activation():
    net = Net(2, 40)
    y = net.op("Gemm", "x", net.random(40, 10), net.random(10))
    graph = prepared(net.model(net.op("Relu", y)))
    (node,) = graph.nodes
    assert node.op == "tvmconv.dense"
    assert [str(step) for step in node.attrs["epilogue"]] == ["bias", "relu"]


def test_explicit_padding_becomes_the_convolutions():
    net = Net(1, 16, 8, 8)
    pads = net.const(np.array([0, 0, 1, 0, 0, 0, 2, 3]))
    y = net.conv(net.op("Pad", "x", pads), 16, 16, k=3, pads=[1, 1, 1, 1])
    graph = prepared(net.model(y))
    workload = convs(graph)[0].attrs["workload"]
    sides = (workload.pad_top, workload.pad_left, workload.pad_bottom, workload.pad_right)
    assert sides == (2, 1, 3, 4)
    assert other_ops(graph) == []
