"""8-bit Winograd kernels against 64-bit integers, bit for bit, and the code that they become."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.assembly import assembly
from tests.kernels import V3, alternating_machines
from tests.schedules.test_integers import DEFAULT, ICELAKE, computed, each_machine, outputs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.kernels.registry import offers
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import exact_output, random_integers
from tvmconv.selection.select import select

LAYERS = [
    "ic16ih8oc16kh3ph1:u8s8s32s32",
    "ic20ih13iw11oc24kh3pt1pl0pb2pr1:u8s8s32u8:zpdata+bias",
    "mb2ic3ih7oc17kh3ph1:u8s8s32u8:zpdata+bias",
    "ic33ih5iw9oc8kh3:u8s8s32u8+bias",
]


def kernel_of(text: str, machine: Machine, tile: tuple[int, int], **knobs: int) -> Kernel:
    """The kernel with a tile, otherwise as the cost model has it."""
    workload = Conv2dWorkload.parse(text)
    found = offers("winograd", workload, machine)
    config = next(c for c in found if (c.int("mh"), c.int("mw")) == tile)
    return make_kernel(workload, machine, "winograd", config.replace(**knobs))


@alternating_machines("text, tile", [*product(LAYERS, ((2, 2), (3, 3), (4, 4)))], DEFAULT)
def test_winograd_is_exact(text: str, tile: tuple[int, int], machine: Machine):
    workload = Conv2dWorkload.parse(text)
    sizes = WinogradModel(workload, machine).tile_sizes
    actual, expected = outputs(kernel_of(text, machine, tile if tile in sizes else sizes[-1]))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 50


@each_machine
@pytest.mark.parametrize(
    ("text", "tile"),
    [
        ("mb2ic20ih17iw15oc24kh3sh2ph1:u8s8s32u8:zpdata+bias", (5, 4)),
        ("ic3ih19oc16kh7sh2ph3:u8s8s32u8:zpdata+bias", (3, 2)),
        ("ic8ih12iw13oc8kh3sh1sw2ph1:u8s8s32u8:zpdata+bias", (4, 4)),
    ],
)
def test_strided_kernels_are_exact(text: str, tile: tuple[int, int], machine: Machine):
    actual, expected = outputs(kernel_of(text, machine, tile))
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 50


@pytest.mark.parametrize("knobs", [{"fused": 0}, {"rh": 1, "rw": 2, "rt": 1, "kr": 3}])
@pytest.mark.parametrize("text", ["ic24ih12iw32oc24kh3ph1", "ic24ih12iw32oc24kh1kw3pw1"])
def test_every_way_through_the_stages_is_exact(text: str, knobs: dict[str, int]):
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8:zpdata+bias")
    tile = WinogradModel(workload, V3).tile_sizes[-1]
    actual, expected = outputs(kernel_of(str(workload), V3, tile, **knobs))
    np.testing.assert_array_equal(actual, expected)


def test_a_residual_is_added_as_the_model_rounds():
    text = "ic32ih14oc32kh3ph1:u8s8s32u8:zpdata+bias+quantise+add"
    actual, expected = outputs(kernel_of(text, V3, (4, 4)))
    difference = np.abs(actual.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 2e-3


@pytest.mark.parametrize("tile", [(2, 2), (4, 4)], ids=["2x2", "4x4"])
@pytest.mark.parametrize("weight", [-128, 127])
@pytest.mark.parametrize("data", [0, 255])
def test_extremes_wrap_back(tile: tuple[int, int], weight: int, data: int):
    """As many channels as F(4x4, 3x3) is exact with, for all weights."""
    kernel = kernel_of("ic114ih8oc8kh3ph1:u8s8s32s32:zpdata+bias", V3, tile)
    operands = random_integers(kernel.workload)
    constants = replace(
        operands.constants,
        weight=np.full_like(operands.constants.weight, weight),
        zero_point=255 - data,
    )
    operands = replace(operands, data=np.full_like(operands.data, data), constants=constants)
    np.testing.assert_array_equal(
        computed(kernel, operands), exact_output(kernel.workload, operands)
    )


@pytest.mark.parametrize(
    ("machine", "instruction"), [(V3, "vpmaddwd"), (ICELAKE, "vpdpwssd")], ids=["avx2", "vnni"]
)
@pytest.mark.parametrize("tile", [(2, 2), (4, 4)], ids=["2x2", "4x4"])
def test_products_stay_in_registers(machine: Machine, instruction: str, tile: tuple[int, int]):
    code = assembly(kernel_of("ic64ih28oc64kh3ph1:u8s8s32u8:zpdata+bias", machine, tile))
    inner = [body for body in code.straight_loops() if any(instruction in text for text in body)]
    assert inner
    for body in inner:
        assert not code.spills(body)
        assert not code.stores(body)
    # nothing is multiplied by 64 bits, nor one by one
    assert not code.has(r"vpmuludq|\simull?\s+\$-?\d+, %r")


def test_selection_takes_a_tile_only_where_it_is_exact():
    """With 200 channels F(4x4) is exact for most weights, not for all."""
    workload = Conv2dWorkload.parse("ic200ih28oc64kh3ph1:u8s8s32u8:zpdata+bias")
    large = {"mh": 4, "mw": 4}
    unknown = select(workload, V3, layer="conv1")
    refused = [o for o in unknown.rejected if o.cause == "overflow" and o.algorithm == "winograd"]
    assert [(o.config.int("mh"), o.config.int("mw")) for o in refused] == [(4, 4)]
    assert "may reach 58752000, and it is exact below 33554432" in refused[0].rejected
    assert unknown.chosen.algorithm == "winograd"
    assert unknown.chosen.error == 0
    facts = replace(WeightFacts.any_weights(workload), largest_sum=2**25 - 1)
    known = select(workload, V3, layer="conv1", facts=facts)
    assert {name: known.chosen.config.int(name) for name in large} == large
