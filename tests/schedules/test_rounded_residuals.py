"""Residuals added to rounded results, all 65,536 pairs of them, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.graph.quantised_net import unoptimised
from tests.kernels import V3 as MACHINE
from tests.schedules.test_integers import computed, each_machine
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import Constants, constant_arguments, exceeds_rounding
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.merged_scales import merged
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import IntegerOperands

WORKLOAD = Conv2dWorkload.parse("ic8ih256oc8kh1:u8s8s32u8+bias+quantise+add")
CHANNELS = 8
# scales and zero points of the rounded sum, of the residual and of the result
GENERIC = (0.071234, 0, 0.0098765, 3, 0.0712, 0)
# a quarter of the sums are ties
HALVES = (0.25, 0, 0.5, 10, 0.5, 255)


def drawn(seed: int) -> tuple[float, int, float, int, float, int]:
    generator = np.random.default_rng(seed)
    scales = np.exp(generator.uniform(-6, -2, 3))
    zeros = generator.integers(0, 255, 3, endpoint=True)
    return tuple(value for pair in zip(scales, zeros, strict=True) for value in pair)


def added(left: np.ndarray, right: np.ndarray, scales: tuple) -> np.ndarray:
    """The results of onnxruntime for two 8-bit tensors, operator by operator."""
    nodes, values = [], []

    def linear(op: str, source: str, result: str, scale: float, zero: int) -> None:
        names = [f"{result}_scale", f"{result}_zero"]
        arrays = np.array(scale, np.float32), np.array(zero, np.uint8)
        values.extend(numpy_helper.from_array(a, n) for a, n in zip(arrays, names, strict=True))
        nodes.append(helper.make_node(op, [source, *names], [result]))

    linear("DequantizeLinear", "left", "a", *scales[:2])
    linear("DequantizeLinear", "right", "b", *scales[2:4])
    nodes.append(helper.make_node("Add", ["a", "b"], ["sum"]))
    linear("QuantizeLinear", "sum", "y", *scales[4:])
    inputs = [helper.make_tensor_value_info(n, 2, left.shape) for n in ("left", "right")]
    output = [helper.make_tensor_value_info("y", 2, left.shape)]
    graph = helper.make_graph(nodes, "add", inputs, output, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return unoptimised(model, {"left": left, "right": right})[0]


def numbers_of(scales: tuple) -> np.ndarray:
    s, zero, t, residual_zero, u, result_zero = scales
    rounded = (0, -zero, 255 - zero, np.float32(s))
    add = (residual_zero, np.float32(t), 0, 0)
    last = (1 / np.float64(np.float32(u)), -result_zero, 255 - result_zero, result_zero)
    return np.array([rounded, add, last], np.float64).reshape(-1)


@each_machine
def test_all_pairs_are_added_as_onnxruntime_adds_them(machine: Machine):
    rows, columns = np.indices((256, 256), np.uint8)
    data = np.broadcast_to(rows, (1, CHANNELS, 256, 256))
    residual = np.broadcast_to(columns, data.shape)
    weight = np.eye(CHANNELS, dtype=np.int8).reshape(CHANNELS, CHANNELS, 1, 1)
    kernel = make_kernel(WORKLOAD, machine, "direct")
    for scales in (GENERIC, HALVES, *map(drawn, range(8))):
        bias = np.full(CHANNELS, -scales[1], np.int32)
        constants = Constants(weight, bias, 0, np.ones(CHANNELS, np.float32), numbers_of(scales))
        actual = computed(kernel, IntegerOperands(data, constants, residual))
        expected = added(rows, columns, scales)
        assert len(np.unique(expected)) > 10
        # sums may come nearer to a half than any factors of 24 bits can tell
        wrong = int((actual[0, 0] != expected).sum())
        assert wrong <= 1, f"{wrong} of 65,536 with {scales}"
        assert (actual == actual[:, :1]).all()


@each_machine
@pytest.mark.parametrize("mark", ["", ":whole"])
def test_a_second_rounding_keeps_the_bounds_of_the_first(mark: str, machine: Machine):
    """The sums pass the first bounds at both ends, and in two cases the last bounds, too."""
    text = f"ic8ih16oc8kh1:u8s8s32u8{mark}+bias+quantise"
    kernel = make_kernel(Conv2dWorkload.parse(text), machine, "direct")
    data = np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(16, 16), (1, CHANNELS, 16, 16))
    weight = np.eye(CHANNELS, dtype=np.int8).reshape(CHANNELS, CHANNELS, 1, 1)
    bias = np.full(CHANNELS, -128, np.int32)
    scale = np.full(CHANNELS, 2.0, np.float32)
    zero = 0 if mark else 100
    whole = (1, -zero, 255 - zero, zero)
    last = [whole] if mark else [whole, (1, -60, 70, zero)]
    for low, high, factor in ((-128, 127, 0.37), (0, 255, 0.37), (-40, 215, 1.5), (3, 5, 0.25)):
        for row in last:
            numbers = np.array([(0, low, high, factor), row], np.float32)
            constants = Constants(weight, bias, 0, scale, numbers.reshape(-1))
            actual = computed(kernel, IntegerOperands(data, constants, None))
            rounded = ((data.astype(np.float32) - 128) * 2).clip(low, high)
            expected = np.rint(rounded * np.float32(factor)).clip(*row[1:3]) + zero
            np.testing.assert_array_equal(actual, expected)


def test_a_factor_that_lets_a_rounded_value_leave_32_bits_is_refused():
    steps, weight = [EpilogueOp("quantise")], np.ones((1, 1, 1, 1), np.int8)
    for factor, exceeds in ((1.0, False), (2.0**23, True)):
        numbers = np.array([(1, -128, 127, factor), (1, -128, 127, 128)]).reshape(-1)
        assert exceeds_rounding(weight, None, np.ones(1), steps, numbers) == exceeds


def test_terms_that_leave_32_bits_are_refused():
    numbers = numbers_of((0.02, 0, 3.0, 0, 1e-9, 0))
    steps = [EpilogueOp("quantise"), EpilogueOp("add")]
    weight, scale = np.ones((CHANNELS, CHANNELS, 1, 1), np.int8), np.ones(CHANNELS, np.float32)
    assert exceeds_rounding(weight, None, scale, steps, numbers)
    constants = Constants(weight, np.zeros(CHANNELS, np.int32), 0, scale, numbers)
    with pytest.raises(WorkloadError, match="2\\*\\*30"):
        constant_arguments(make_kernel(WORKLOAD, MACHINE, "direct"), constants)


@pytest.mark.parametrize("bounds", [(0, 254, 0), (-3, 252, 3)])
def test_bounds_inside_of_the_range_are_refused_with_the_mark_whole(bounds):
    workload = Conv2dWorkload.parse(f"ic{CHANNELS}ih4oc{CHANNELS}kh1:u8s8s32u8:whole")
    weight, scale = np.ones((CHANNELS, CHANNELS, 1, 1), np.int8), np.ones(CHANNELS, np.float32)
    constants = Constants(weight, None, 0, scale, np.array([1, *bounds], np.float32))
    with pytest.raises(WorkloadError, match=f"zero point .*{bounds[-1]}.*Remove the mark whole"):
        constant_arguments(make_kernel(workload, MACHINE, "direct"), constants)


def test_factors_of_roundings_reach_what_is_added_before_them():
    steps = [EpilogueOp(kind) for kind in ("bias", "add", "quantise", "silu")]
    numbers = np.array([(3, 0.5, 0, 0), (4, -9, 9, 0.25), (0,) * 4, (8, -9, 9, 1)], float)
    scale, found = merged(steps, np.array([0.125]), numbers.reshape(-1))
    assert scale == 0.5
    # a rounding after an activation keeps its own
    assert found.reshape(-1, 4).tolist() == [
        [-6, 2, 0, 0],
        [4, -9, 9, 0.25],
        [0, 0, 0, 0],
        [8, -9, 9, 1],
    ]
