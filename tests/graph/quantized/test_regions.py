"""INT8 regions: their graphs, and their values against onnxruntime's, bit for bit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvmconv
from tests.frontend.quantised_models import quantised_network
from tests.graph.network import AVX512, convs, epilogues, other_ops, planned, prepared
from tests.graph.passed import pipeline, run
from tests.graph.quantised_net import QuantisedNet, small_input, unoptimised
from tests.graph.quantised_networks import (
    MODELS,
    averaged,
    dense,
    joined,
    moved,
    residual,
    single,
    steep,
    transposed,
    volume,
)
from tvmconv.core.datatypes import FLOAT32
from tvmconv.frontend import read_model, to_relax
from tvmconv.machines.cuda import MACHINES
from tvmconv.machines.targets import resolve_machine

ARM = resolve_machine("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod", 1)


# the same networks with other types or scales, of which tests on Arm build some
SELDOM = {"unsigned_weight", "residual_int8", "dense_int8", "one_scale", "transposed_one_scale"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in MODELS]
)
def test_values_are_those_of_single_operators(name: str):
    model = MODELS[name]()
    feeds = small_input(model)
    actual = tvmconv.build(model, threads=1).run(feeds)
    for output, expected in zip(model.graph.output, unoptimised(model, feeds), strict=True):
        value = actual[output.name]
        assert value.dtype == expected.dtype
        if name == "separable" or name.startswith("dense"):
            # FP32 sums, whose order differs, and the roundings after them
            scale = np.abs(expected).max()
            assert np.abs(value - expected).max() <= 0.02 * scale
            assert (np.abs(value - expected) > 1e-6 * scale).mean() < 0.01
        else:
            np.testing.assert_array_equal(value, expected)
        assert len(np.unique(expected)) > 5


@pytest.mark.parametrize("rounded", [False, True])
def test_a_bias_of_less_than_a_unit_of_the_sums_is_not_lost(rounded: bool):
    net = QuantisedNet(1, 4, 5, 6, seed=4)
    values = net.generator.integers(-3, 3, (8, 4, 1, 1), np.int8, endpoint=True)
    weight = net.op("DequantizeLinear", *map(net.const, (values, np.float32(2), np.int8(0))))
    bias = net.const(np.linspace(-0.03, 0.03, 8, dtype=np.float32))
    y = net.op("Relu", net.op("Conv", net.rounded("x"), weight, bias))
    model = net.model(net.rounded(y, scale=0.01, zero=0) if rounded else y)
    feeds = small_input(model)
    actual = tvmconv.build(model, threads=1).run(feeds)[model.graph.output[0].name]
    np.testing.assert_allclose(actual, unoptimised(model, feeds)[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("machine", [AVX512, ARM], ids=["uint8", "int8"])
def test_one_kernel_computes_all_up_to_the_last_rounding(machine: Any):
    for model, steps in (
        (single(), ["bias"]),
        (single(np.int8), ["bias"]),
        (residual(), ["bias+quantise+add", "bias"]),
        (dense(), ["bias", "bias", "bias"]),
    ):
        graph = prepared(model, machine)
        assert epilogues(graph) == steps
        kind = "u8" if machine is AVX512 else "s8"
        last = "f32" if len(steps) == 3 else kind
        types = [str(node.attrs["workload"].types).partition(":")[0] for node in convs(graph)]
        assert types == [*[f"{kind}s8s32{kind}"] * (len(steps) - 1), f"{kind}s8s32{last}"]


def test_padding_reads_a_zero_point_that_is_not_zero():
    net = QuantisedNet(1, 16, 8, 8)
    a = net.rounded(net.layer("Conv", net.rounded("x", zero=3), 16, 16, 3, 3), zero=0)
    graph = prepared(net.model(net.rounded(net.layer("Conv", a, 16, 16, 3, 3))))
    flags = [n.attrs["workload"].types.quantisation.data_zero_point for n in convs(graph)]
    assert flags == [True, False]


def test_outputs_of_the_whole_range_are_marked():
    net = QuantisedNet(1, 16, 8, 8)
    relu = net.rounded(net.op("Relu", net.layer("Conv", net.rounded("x"), 16, 16, 3, 3)), zero=0)
    shifted = net.rounded(net.layer("Conv", relu, 16, 16, 3, 3), zero=3)
    limited = net.op("Clip", net.layer("Conv", shifted, 16, 16, 3, 3), net.const(np.float32(0.1)))
    graph = prepared(net.model(net.rounded(limited, zero=0)))
    flags = [n.attrs["workload"].types.quantisation.whole_range for n in convs(graph)]
    assert flags == [True, False, False]


def test_roundings_remain_at_the_borders_alone():
    for model in (joined(), residual(), averaged(), moved(), transposed(1)):
        operators = other_ops(prepared(model))
        linear = [op for op in operators if op in ("quantize", "dequantize")]
        assert linear == ["quantize", *["dequantize"] * len(model.graph.output)]


def test_volumes_have_8_bit_kernels():
    graph = prepared(volume())
    assert epilogues(graph) == ["bias", "bias+quantise+add", "bias"]
    assert all(node.attrs["workload"].types.is_integer for node in convs(graph))
    # for the input and for the output
    assert other_ops(graph).count("permute_dims") == 2


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_no_rounding_is_called_between_convolutions(form: str, tmp_path: Path):
    """The network has all kinds of operators; depthwise ones may compute in FP32."""
    model = quantised_network(tmp_path, form, "QUInt8", "QInt8", per_channel=True)
    compiled = tvmconv.build(model, threads=1)
    floating = {d.layer: d.reason for d in compiled.decisions if not d.workload.types.is_integer}
    assert all("in float32 although quantized: " in reason for reason in floating.values())
    calls = compiled.calls
    convolutions = [i for i, call in enumerate(calls) if "conv2d" in call.operator]
    for left, right in pairwise(convolutions):
        between = [call.operator for call in calls[left + 1 : right]]
        if {calls[left].layer, calls[right].layer} & set(floating):
            continue
        assert not {"quantize", "dequantize"} & set(between), between


def test_a_sum_that_32_bits_do_not_hold_stays_in_float32():
    net = QuantisedNet(1, 150_000, 1, 1)
    model = net.model(net.rounded(net.layer("Conv", net.rounded("x"), 2, 150_000, 1, 1)))
    (node,) = convs(prepared(model))
    assert not node.attrs["workload"].types.is_integer
    assert "32 bits" in node.attrs["in_float"]


def test_a_rounding_beyond_32_bits_follows_the_kernel():
    model = steep()
    feeds = small_input(model)
    (node,) = convs(prepared(model))
    assert str(node.attrs["workload"].types).startswith("u8s8s32f32")
    (actual,) = tvmconv.build(model, threads=1).run(feeds).values()
    (expected,) = unoptimised(model, feeds)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 1


@pytest.mark.parametrize(
    ("data", "weight", "reason"),
    [
        (np.uint16, np.int8, "data is uint16"),
        (np.int16, np.int16, "data is int16"),
        (np.uint8, np.int16, "weight is int16"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*16 bits")
def test_layers_of_16_bits_say_that_they_are_float32(data: Any, weight: Any, reason: str):
    net = QuantisedNet(1, 20, 5, 5, seed=1, dtype=data)
    y = net.layer("Conv", net.rounded("x"), 24, 20, 3, 3, dtype=weight)
    model = net.model(net.rounded(net.op("Relu", y)))
    model.opset_import[0].version, model.ir_version = 21, 10
    (decision,) = tvmconv.build(model, threads=1).decisions
    assert decision.workload.types == FLOAT32
    assert f"in float32 although quantized: its {reason}" in decision.reason


def test_models_for_gpus_say_that_their_layers_are_float32():
    decisions = planned(residual(), MACHINES["cuda:sm_90"])[1].decisions.values()
    assert len(decisions) == 2
    for decision in decisions:
        assert decision.workload.types == FLOAT32
        assert "in float32 although quantized: GPUs have no 8-bit" in decision.reason


@pytest.mark.filterwarnings("ignore:.*16 bits")
def test_fully_connected_layers_of_16_bits_have_a_decision_that_says_so():
    net = QuantisedNet(1, 20, seed=1, dtype=np.uint16)
    model = net.model(net.rounded(net.layer("Gemm", net.rounded("x"), 24, 20, transB=1)))
    model.opset_import[0].version, model.ir_version = 21, 10
    built = tvmconv.build(model, threads=1)
    (decision,) = built.decisions
    assert decision.chosen.algorithm == "dense"
    why = "in float32 although quantized: its data is uint16, kernels multiply 8 bits"
    assert decision.reason.endswith(why)
    assert not any(call.note for call in tvmconv.build(dense(), threads=1).calls)


def test_passes_replace_8_bit_convolutions():
    model = residual()
    feeds = small_input(model)
    passed = pipeline()(to_relax(read_model(model)))
    (actual,) = run(passed, "main", feeds["x"])
    np.testing.assert_array_equal(actual, unoptimised(model, feeds)[0])


@pytest.mark.parametrize("operator", ["RoiAlign", "CumSum"])
def test_results_of_own_kernels_are_quantized(operator: str):
    net = QuantisedNet(1, 4, 5, 6, seed=6)
    if operator == "RoiAlign":
        boxes = net.const(np.array([[0, 0, 4, 3], [1, 1, 5, 4]], np.float32))
        y = net.op("RoiAlign", "x", boxes, net.const(np.zeros(2, np.int64)), output_height=2)
    else:
        y = net.op("CumSum", "x", net.const(np.array(2)))
    model = net.model(net.rounded(y))
    feeds = small_input(model)
    actual = tvmconv.build(model, threads=1).run(feeds)
    for output, expected in zip(model.graph.output, unoptimised(model, feeds), strict=True):
        np.testing.assert_allclose(actual[output.name], expected, atol=1e-6)
