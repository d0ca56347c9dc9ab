"""8-bit kernels against 64-bit integers, bit for bit."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm

from tests.kernels import REGISTER, V3, V4, executed_on
from tests.layout import unblock
from tvmconv.bench.integers import IntegerOperands, exact_output, random_integers
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import constant_arguments
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.dot import dot_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.tir.pipeline import compile_function

# vectors of 512 and of 256 bits with dot products of bytes, and those without
ICELAKE = resolve_machine("llvm -mcpu=icelake-server", 1)
ALDERLAKE = resolve_machine("llvm -mcpu=alderlake", 1)
MACHINES = [V3, V4, ICELAKE, ALDERLAKE]
each_machine = pytest.mark.parametrize(
    "machine",
    [pytest.param(*executed_on(m).values, id=m.mcpu, marks=executed_on(m).marks) for m in MACHINES],
)
SUMS = ":u8s8s32s32"
LAYERS = [
    f"ic16ih5oc16kh1{SUMS}",
    f"ic24ih9oc40kh3ph1{SUMS}+bias",
    "ic3ih9oc20kh3ph1:u8s8s32u8:zpdata+bias",
    "ic32ih14oc64kh3ph1:u8s8s32u8+bias",
    "mb2ic32ih15oc24kh3sh2ph1:u8s8s32u8:zpdata+bias",
    "ic20ih12oc16kh5ph2dh1:u8s8s32u8:zpdata+bias",
    "ic64ih14oc32kh1sh2:u8s8s32u8+bias",
    "g4ic64ih8oc40kh3ph1:u8s8s32u8:zpdata+bias",
    "ic18ih7oc33kh3pt1pl0pb2pr1:u8s16s32u8:zpdata+bias",
    # padding in front of a volume and behind it alone
    "ic16id4ih6oc16kd3kh3pd1:u8s8s32u8:zpdata+bias",
    "ic32ih8oc32kh1:u8s8s32f32+bias+relu",
    "ic20id4ih6oc16kd3kh3pd1ph1:u8s8s32u8:zpdata+bias",
]
DEPTHWISE = [
    "g20ic20ih9oc20kh3ph1:u8s8s32u8+bias",
    "g32ic32ih9oc32kh3ph1:u8s8s32u8:zpdata+bias",
    "mb2g16ic16ih10oc16kh5sh2ph2:u8s8s32u8+bias",
    "g16ic16ih11oc16kh4pt2pl1pb1pr2dh1:u8s8s32u8:zpdata+bias",
    "g16ic16ih7oc16kh3ph1:u8s16s32u8:zpdata+bias",
    f"g16ic16ih6oc16kh2{SUMS}",
]


def blocked(array: np.ndarray, lanes: int, fill: int) -> np.ndarray:
    """NCHW to NCHWc; surplus lanes hold a number that nothing may read as data."""
    n, channels, height, width = array.shape
    blocks = -(-channels // lanes)
    padded = np.full((n, blocks * lanes, height, width), fill, array.dtype)
    padded[:, :channels] = array
    return np.ascontiguousarray(
        padded.reshape(n, blocks, lanes, height, width).transpose(0, 1, 3, 4, 2)
    )


def outputs(kernel: Kernel, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel computes of random operands, and the exact output."""
    operands = random_integers(kernel.workload, seed)
    return computed(kernel, operands), exact_output(kernel.workload, operands)


def computed(kernel: Kernel, operands: IntegerOperands) -> np.ndarray:
    """What a kernel computes, in the plain layout."""
    w, lanes = kernel.workload, kernel.machine.channel_block
    data = operands.data if w.data_layout == "NCHW" else blocked(operands.data, lanes, 77)
    arrays = [data, *constant_arguments(kernel, operands.constants)]
    if operands.residual is not None:
        arrays.append(blocked(operands.residual, lanes, 99))
    planes, channels, height, width = w.result_shape
    shape = (planes, kernel.machine.blocks(channels), height, width, lanes)
    tensors = [tvm.runtime.tensor(a) for a in (*arrays, np.zeros(shape, w.types.output))]
    compile_function(kernel.prim_func(), kernel.machine)["main"](*tensors)
    return unblock(tensors[-1].numpy(), channels)


@each_machine
@pytest.mark.parametrize("text", LAYERS)
def test_direct_convolution_is_exact(text: str, machine: Machine):
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "direct"))
    assert actual.dtype == expected.dtype
    if expected.dtype == np.float32:
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(actual, expected)
        assert len(np.unique(expected)) > 50


@each_machine
@pytest.mark.parametrize("text", DEPTHWISE)
def test_depthwise_convolution_is_exact(text: str, machine: Machine):
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "depthwise"))
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 50


@each_machine
@pytest.mark.parametrize("steps", ["+quantise+add", "+add", "+quantise+hardswish", "+silu"])
def test_steps_behind_the_sums_round_as_the_model_does(steps: str, machine: Machine):
    """But for halves: a multiply-add rounds once where numpy rounds twice."""
    text = f"ic32ih14oc64kh3ph1:u8s8s32u8:zpdata+bias{steps}"
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "direct"))
    difference = np.abs(actual.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 2e-3
    assert len(np.unique(expected)) > 50


@pytest.mark.parametrize(
    ("machine", "instruction"),
    [(V3, "vpmaddwd"), (V4, "vpmaddwd"), (ICELAKE, "vpdpbusd"), (ALDERLAKE, "vpdpbusd")],
    ids=lambda value: getattr(value, "mcpu", value),
)
def test_main_loops_multiply_by_words(machine: Machine, instruction: str):
    kernel = make_kernel(Conv2dWorkload.parse(LAYERS[3]), machine, "direct")
    assembly = compile_function(kernel.prim_func(), machine).inspect_source()
    register = REGISTER[machine.vector.bits]
    assert len(re.findall(rf"{instruction}.*{register}\d+\n", assembly)) > 50
    assert not re.search(r"vpmulld|vpmuludq", assembly)


@pytest.mark.parametrize("machine", [V3, ICELAKE], ids=lambda machine: machine.mcpu)
@pytest.mark.parametrize("text", ["ic64ih14oc64kh3ph1", "ic64ih14oc64kh1"])
def test_sums_stay_in_registers(text: str, machine: Machine):
    """LLVM spills them where it adds products first, or keeps pixels between taps."""
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8+bias")
    assembly = compile_function(make_kernel(workload, machine, "direct").prim_func(), machine)
    lines = assembly.inspect_source().splitlines()
    instruction = dot_of_bytes(machine).name
    products = [i for i, line in enumerate(lines) if instruction in line]
    near = {j for i in products for j in range(i - 2, i + 3)}
    stored = [j for j in near if re.search(r"vmov\w+\s+%[yz]mm\d+, .*%rsp", lines[j])]
    # around the loops there are a few
    assert len(stored) <= len(products) // 50


def test_rows_of_a_depthwise_layer_are_put_side_by_side_by_moving_bytes():
    """Not by widening each and shifting it, which took twice as many instructions."""
    kernel = make_kernel(Conv2dWorkload.parse(DEPTHWISE[1]), ICELAKE, "depthwise")
    assembly = compile_function(kernel.prim_func(), ICELAKE).inspect_source()
    # of nine columns of pixels in each of the tiles at a border, and in the one between
    assert len(re.findall(r"\tvperm[ti]2b\t", assembly)) % 9 == 0
    assert len(re.findall(r"\tvperm[ti]2b\t", assembly)) >= 27
    assert not re.search(r"vpslld|vpmovzxbd", assembly)
