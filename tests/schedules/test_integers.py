"""8-bit kernels against 64-bit integers, bit for bit."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.assembly import assembly, matching
from tests.kernels import (
    V3,
    V4,
    alternating_machines,
    callable_kernel,
    default_config,
    executed_on,
    integer_arguments,
)
from tests.layout import unblock
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.integers import IntegerOperands, exact_output, random_integers

# vectors of 512 and of 256 bits with VNNI, and without
ICELAKE = resolve_machine("llvm -mcpu=icelake-server", 1)
ALDERLAKE = resolve_machine("llvm -mcpu=alderlake", 1)
# these two have both vectors and both ways to multiply; the others pair them otherwise
DEFAULT = [V3, ICELAKE]


def machines_of(default: list[Machine], *others: Machine) -> Any:
    """Parameters for some machines, and for others in long sweeps."""
    marked = [(m, ()) for m in default] + [(m, (pytest.mark.slow,)) for m in others]
    found = [(executed_on(m), marks) for m, marks in marked]
    return pytest.mark.parametrize(
        "machine",
        [pytest.param(p.values[0], id=p.values[0].mcpu, marks=[*p.marks, *m]) for p, m in found],
    )


ALL = [*DEFAULT, V4, ALDERLAKE]
each_machine = machines_of(DEFAULT, V4, ALDERLAKE)
SUMS = ":u8s8s32s32"
LAYERS = [
    f"ic16ih5oc16kh1{SUMS}",
    f"ic24ih9oc40kh3ph1{SUMS}+bias",
    "ic3ih9oc20kh3ph1:u8s8s32u8:zpdata+bias",
    "ic32ih14oc64kh3ph1:u8s8s32u8:whole+bias",
    "mb2ic32ih15oc24kh3sh2ph1:u8s8s32u8:zpdata+bias",
    "ic20ih12oc16kh5ph2dh1:u8s8s32u8:zpdata+bias",
    "ic64ih14oc32kh1sh2:u8s8s32u8+bias",
    "ic24ih11oc16kh1sh3ph1:u8s8s32u8:zpdata+bias",
    "ic16ih9iw10oc16kh3kw1sh2sw3ph1pw0:u8s8s32u8:zpdata+bias",
    "g4ic64ih8oc40kh3ph1:u8s8s32u8:zpdata+bias",
    "ic18ih7oc33kh3pt1pl0pb2pr1:u8s16s32u8:zpdata+bias",
    # padding before a volume and after it alone
    "ic16id4ih6oc16kd3kh3pd1:u8s8s32u8:zpdata+bias",
    "ic32ih8oc32kh1:u8s8s32f32+bias+relu",
    "ic20id4ih6oc16kd3kh3pd1ph1:u8s8s32u8:zpdata+bias",
]
BYTES = [
    f"ic9ih13oc5kh1{SUMS}",
    "ic64ih14oc32kh1sh2:u8s8s32u8+bias",
    "mb2ic3ih9oc20kh3ph1sh2:u8s8s32u8:zpdata+bias",
    "ic20ih12oc16kh5ph2dh1:u8s8s32u8:zpdata:whole+bias",
    "ic32ih8oc32kh1:u8s8s32u8+bias+quantise+add",
]
PIXELWISE = [
    f"ic13ih5oc7kh1{SUMS}",
    "mb2ic64ih9oc40kh1sh2:u8s8s32u8+bias",
    "ic20ih7iw13oc33kh1:u8s8s32u8:whole+bias+quantise+add",
]
FIRST = [
    "ic3ih32oc40kh7sh2ph3:nchw:u8s8s32u8:zpdata+bias",
    "ic3ih35oc24kh11sh4ph2:nchw:u8s8s32u8:whole+bias",
    "ic1ih28oc20kh5ph2:nchw:u8s8s32u8:zpdata+bias",
    "mb2ic3ih9iw14oc24kh2kw5sh1sw3pt1pl0pb0pr4:nchw:u8s8s32u8:zpdata+bias",
    "ic5ih12oc33kh3sh2ph2dh1dw0:nchw:u8s16s32u8:zpdata+bias",
    "ic3id4ih9oc20kd3kh3pd1ph1:nchw:u8s8s32u8:zpdata+bias",
    f"ic2ih9oc16kh1:nchw{SUMS}",
]
DEPTHWISE = [
    "g20ic20ih9oc20kh3ph1:u8s8s32u8+bias",
    "g32ic32ih9oc32kh3ph1:u8s8s32u8:zpdata:whole+bias",
    "mb2g16ic16ih10oc16kh5sh2ph2:u8s8s32u8+bias",
    "g16ic16ih11oc16kh4pt2pl1pb1pr2dh1:u8s8s32u8:zpdata+bias",
    "g16ic16ih7oc16kh3ph1:u8s16s32u8:zpdata+bias",
    f"g16ic16ih6oc16kh2{SUMS}",
]


def outputs(kernel: Kernel, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A kernel's result of random operands, and the exact output."""
    operands = random_integers(kernel.workload, seed)
    return computed(kernel, operands), exact_output(kernel.workload, operands)


def computed(kernel: Kernel, operands: IntegerOperands) -> np.ndarray:
    """A kernel's result, in the plain layout."""
    output = callable_kernel(kernel)(integer_arguments(kernel, operands))
    return unblock(output, kernel.workload.out_channels)


@alternating_machines("text", LAYERS, ALL)
def test_direct_convolution_is_exact(text: str, machine: Machine):
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "direct"))
    assert actual.dtype == expected.dtype
    if expected.dtype == np.float32:
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(actual, expected)
        assert len(np.unique(expected)) > 50


@alternating_machines("weights, text", [*product(("any", "extreme"), BYTES)])
def test_products_of_bytes_are_exact(text: str, weights: str, machine: Machine):
    """Also with weights that would saturate in 16 bits: any sizes, and the largest alone."""
    workload = Conv2dWorkload.parse(text)
    operands = random_integers(workload, 0)
    weight = operands.constants.weight
    if weights == "extreme":
        # and groups of which two make the largest sums that 16 bits hold
        places = np.indices(weight.shape)
        joined = (places[1] // 4 + places[2] + places[3]) % 2 == 1
        weight[...] = np.where(weight < 0, -128, 127)
        weight[...] = np.where(joined, np.sign(weight) * 32, weight)
        operands.data[...] = np.where(operands.data < 32, 0, 255)
    kernel = make_kernel(workload, machine, "direct_bytes").suited(weight)
    assert kernel.config["excess"] > 0
    actual, expected = computed(kernel, operands), exact_output(workload, operands)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > (30 if weights == "any" else 1)


@alternating_machines("text, weights", [*product(PIXELWISE, ("any", "extreme", "normal"))])
def test_packed_tiles_are_exact(text: str, weights: str, machine: Machine):
    """Last tiles of fewer pixels, shares of output blocks, strides, and dwords of every mask."""
    workload = Conv2dWorkload.parse(text)
    operands = random_integers(workload, 1)
    weight = operands.constants.weight
    if weights == "extreme":
        weight[...] = np.where(weight < 0, -128, 127)
        operands.data[...] = np.where(operands.data < 32, 0, 255)
    elif weights == "normal":
        numbers = np.random.default_rng(0).standard_normal(weight.shape)
        weight[...] = np.rint(numbers * 40).clip(-128, 127)
    for ow, rows, shares, orders in ((5, 2, 1, 1), (12, 1, 2, 3)):
        config = Config.of(oh=1, ow=ow, rows=rows, excess=0, packed=orders, shares=shares)
        kernel = make_kernel(workload, machine.with_cores(shares), "direct_bytes", config)
        kernel = kernel.suited(weight)
        actual, expected = computed(kernel, operands), exact_output(workload, operands)
        np.testing.assert_array_equal(actual, expected)


@each_machine
def test_taps_wholly_in_the_padding_prefetch_nothing(machine: Machine):
    text = "g3ic21ih13iw6oc72kd2kh5kw1sd2sh3sw3pf2pt3pb1:u8s8s32u8:zpdata+bias"
    workload = Conv2dWorkload.parse(text)
    config = default_config("direct", workload, machine, oc=3, oh=1, ow=2, fetch_input=1)
    actual, expected = outputs(make_kernel(workload, machine, "direct", config))
    np.testing.assert_array_equal(actual, expected)


@alternating_machines("text", FIRST, ALL)
def test_first_layers_are_exact(text: str, machine: Machine):
    kernel = make_kernel(Conv2dWorkload.parse(text), machine, "direct_first")
    actual, expected = outputs(kernel)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 50


@each_machine
def test_tiles_of_first_layers(machine: Machine):
    """Remainders of every loop, by tiles of several rows and by bands for threads."""
    workload = Conv2dWorkload.parse("ic3ih23oc72kh3sh2ph1:nchw:u8s8s32u8:zpdata+bias+quantise+add")
    for oc, tile_h, tile_w, bands in ((1, 2, 3, 1), (2, 1, 5, 2), (3, 2, 1, 3)):
        config = Config.of(oc=oc, tile_h=tile_h, tile_w=tile_w, bands=bands)
        kernel = make_kernel(workload, machine.with_cores(bands), "direct_first", config)
        actual, expected = outputs(kernel)
        assert np.abs(actual.astype(int) - expected).max() <= 1
        assert (actual != expected).mean() < 2e-3


def test_dwords_of_first_layers_hold_taps_of_a_row():
    workload = Conv2dWorkload.parse("ic3ih32oc40kh7sh2ph3:nchw:u8s8s32u8:zpdata+bias")
    kernel = make_kernel(workload, ICELAKE, "direct_first")
    weight = np.random.default_rng(0).integers(-128, 128, (40, 3, 7, 7)).astype(np.int8)
    packed = kernel.pack_weight(weight)
    assert packed.shape[1:4] == (2, 7, 3)
    np.testing.assert_array_equal(packed[0, 1, 5, 2, 0, 3], [*weight[3, 2, 5, 4:], 0])
    dilated = Conv2dWorkload.parse("ic3ih32oc40kh3dh1:nchw:u8s8s32u8+bias")
    with pytest.raises(ConfigError, match="taps of its rows are not neighbors"):
        make_kernel(dilated, ICELAKE, "direct_first")


@alternating_machines("text", DEPTHWISE, ALL)
def test_depthwise_convolution_is_exact(text: str, machine: Machine):
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "depthwise"))
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 50


@alternating_machines(
    "steps", ["+quantise+add", "+add", "+quantise", "+quantise+hardswish", "+silu"], ALL
)
def test_steps_after_the_sums_round_as_the_model_does(steps: str, machine: Machine):
    """Except for ties: an FMA rounds once where numpy rounds twice."""
    text = f"ic32ih14oc64kh3ph1:u8s8s32u8:zpdata+bias{steps}"
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, "direct"))
    difference = np.abs(actual.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 2e-3
    assert len(np.unique(expected)) > 50


@pytest.mark.parametrize("machine", [V3, V4], ids=lambda machine: machine.mcpu)
def test_roundings_in_the_middle_are_vector_code(machine: Machine):
    text = "ic32ih14oc64kh1:u8s8s32u8+bias+quantise+add"
    kernel = make_kernel(Conv2dWorkload.parse(text), machine, "direct")
    code = assembly(kernel)
    assert not code.has(r"vroundss|vcvtsi2ss|vrndscaless")
    names = ("vpmovzxbd", "vcvtps2dq", "vround|vrndscale", "vmul", "vfmadd")
    widened, *others = (code.count(rf"(?:{name})\w*") for name in names)
    # both roundings, the scale of the sums, and two factors with their additions
    assert others == [widened, widened, widened, 2 * widened]
    assert widened > 0


@pytest.mark.parametrize("machine", [V3, V4], ids=lambda machine: machine.mcpu)
def test_a_value_that_is_rounded_twice_is_bounded_as_a_byte(machine: Machine):
    text = "ic32ih14oc64kh1:u8s8s32u8:whole+bias+quantise"
    code = assembly(make_kernel(Conv2dWorkload.parse(text), machine, "direct"))
    assert not code.has("vmaxps|vminps|vpaddsw")
    assert code.has("vpminub")


@pytest.mark.parametrize(
    ("machine", "instruction"),
    [(V3, "vpmaddwd"), (V4, "vpmaddwd"), (ICELAKE, "vpdpbusd"), (ALDERLAKE, "vpdpbusd")],
    ids=lambda value: getattr(value, "mcpu", value),
)
def test_main_loops_multiply_by_words(machine: Machine, instruction: str):
    kernel = make_kernel(Conv2dWorkload.parse(LAYERS[3]), machine, "direct")
    code = assembly(kernel)
    assert len(matching(rf"{instruction}.*{code.register}\d+$", code.lines)) > 25
    assert not code.has(r"vpmulld|vpmuludq")


@pytest.mark.parametrize("machine", [V3, ICELAKE], ids=lambda machine: machine.mcpu)
@pytest.mark.parametrize(
    "text", ["ic64ih14oc64kh3ph1", "ic64ih14oc64kh1", "ic3ih224oc64kh7sh2ph3:nchw"]
)
def test_sums_stay_in_registers(text: str, machine: Machine):
    """LLVM spills them where it adds products first, or keeps pixels between taps."""
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8+bias")
    algorithm = "direct_first" if "nchw" in text else "direct"
    lines = assembly(make_kernel(workload, machine, algorithm)).lines
    instruction = multiply_of_bytes(machine).name
    products = [i for i, line in enumerate(lines) if instruction in line]
    near = {j for i in products for j in range(i - 2, i + 3)}
    # weights that the first tile widens are stored there, too, by an index
    stored = [j for j in near if re.search(r"vmov\w+\s+%[yz]mm\d+, .*%rsp\)", lines[j])]
    # around the loops there are a few
    assert len(stored) <= len(products) // 50


@pytest.mark.parametrize("machine", [V3, ICELAKE], ids=lambda machine: machine.mcpu)
def test_rounded_additions_stay_vectors(machine: Machine):
    """A rounding in the middle was computed lane by lane: a layer with it took three times as long.

    TVM takes vectors apart where an operator is not known to take them.
    """
    workload = Conv2dWorkload.parse("ic64ih14oc64kh1:u8s8s32u8+bias+quantise+add")
    kernel = make_kernel(workload, machine, "direct")
    code = assembly(kernel)
    assert code.count("vcvtps2dq")
    # three numbers of the steps are converted once for each copy of the tile
    assert code.count(r"vcvt\w*(?:ss2si|si2ss)\w*") <= 6
    assert not code.count(r"v(?:round|rndscale)ss")
    assert code.count("vpackuswb")


@pytest.mark.parametrize("packed", [0, 1])
def test_products_of_bytes_have_loops_without_memory_of_sums(packed: int):
    """Two steps have two loads of weights, and seven instructions a pixel; also one step alone."""
    workload = Conv2dWorkload.parse("ic64ih14oc64kh1:u8s8s32u8+bias")
    config = default_config("direct_bytes", workload, V3, packed=packed, rows=1)
    kernel = make_kernel(workload, V3, "direct_bytes", config)
    lines = assembly(kernel).lines
    products = [i for i, line in enumerate(lines) if "vpmaddubsw" in line]
    count = kernel.config["oh"] * kernel.config["ow"]
    for first, steps in ((0, 2), (2 * count, 1)):
        loop = lines[products[first] - 3 : products[first + steps * count - 1] + 4]
        assert sum("vpmaddubsw" in line for line in loop) == steps * count
        assert sum("vpaddw" in line for line in loop) == (steps - 1) * count
        assert sum("vpmaddwd" in line for line in loop) == count
        assert not [line for line in loop if re.search(r"vmov.*%rsp|vpmovsx", line)]


def test_rows_of_a_depthwise_layer_are_put_side_by_side_by_moving_bytes():
    """Not by widening each and shifting it, which took twice as many instructions."""
    kernel = make_kernel(Conv2dWorkload.parse(DEPTHWISE[1]), ICELAKE, "depthwise")
    code = assembly(kernel)
    # nine columns of pixels in each of the tiles at a border, and in the one between
    assert code.count(r"vperm[ti]2b") % 9 == 0
    assert code.count(r"vperm[ti]2b") >= 27
    assert not code.has(r"vpslld|vpmovzxbd")
    # a vector that fills two places is read twice by one load
    assert code.has(r"vbroadcast\w*128|vbroadcast\w*x4")


def test_a_lone_row_of_a_dword_is_widened_in_one_instruction():
    """With three rows, the third fills a dword alone; it is not put next to zeros first."""
    workload = Conv2dWorkload.parse("g32ic32ih16oc32kh3ph1:u8s8s32u8:zpdata+bias")
    kernel = make_kernel(workload, V3, "depthwise")
    columns = kernel.config.int("tile_w") + 2
    code = assembly(kernel)
    counts = [code.count(name) for name in ("vpmovzxbd", "vpunpcklbw")]
    # a tile at each border has one column less; rows at the border have code of their own
    assert kernel.config.int("tile_w") == 8
    assert counts[0] >= 2 * (columns - 1)
    assert counts[1] <= counts[0] * 3 / 2
