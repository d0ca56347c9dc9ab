"""Kernels whose FMAs read lanes: their numbers, and the code for 64-bit Arm.

The numbers are computed here, by a machine model with such vectors and instructions that this host
executes. The Arm code is only compiled and read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings

from tests.assembly import NEON_LANE, NEON_SUM, assembly, matching, spills
from tests.host import HOST
from tests.kernels import V3, check_kernel, default_config, dense
from tests.strategies import conv2d_workloads
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.estimation.assembly import describe, lone_inserts
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Vector

LANES = replace(
    HOST,
    name="lanes",
    vector=Vector(bits=128, registers=32),
    channel_block=4,
    code=replace(V3.code, by_lane=True, transforms_strips=True, halves=True, phases=True),
)
CORES = [MACHINES["cortex-a72"], MACHINES["neoverse-n1"], MACHINES["neoverse-v2"]]
# LLVM orders code for it as for cores that execute in order
IN_ORDER = [MACHINES["aarch64"]]
HALVED = [MACHINES["cortex-a53"], MACHINES["cortex-a55"]]
LAYERS = [
    "ic64ih56oc64kh3ph1",
    "ic256ih14oc1024kh1",
    "ic128ih28oc128kh3ph1+bias+relu",
    "ic512ih7oc512kh3ph1+bias+add+relu",
    "ic128ih56oc128kh3sh2ph1",
    "ic256ih28oc64kh1sh2",
    "ic64ih27oc192kh5ph2",
]
_ARITHMETIC = r"f(?:add|sub|mul|ml[as])\s+v\d+\.4s"
_ON_STACK = r"(?:st|ld)\w+\s.*\[sp"


def fully_connected(rows, inputs, outputs):
    """A layer without bias."""
    return Conv2dWorkload.parse(f"mb{rows}ic{inputs}ih1oc{outputs}kh1:nc")


# by default two layers on every core, and each of the others on one
@pytest.mark.parametrize(
    "core, layer",
    [
        *product((*CORES, *IN_ORDER), LAYERS[:2]),
        *(
            pytest.param(core, layer, marks=[pytest.mark.slow] * ((number - place) % 3 != 0))
            for number, core in enumerate(CORES)
            for place, layer in enumerate(LAYERS[2:])
        ),
    ],
    ids=lambda case: getattr(case, "name", case),
)
def test_direct_multiplies_by_lanes_without_spills(core, layer):
    body = assembly(make_kernel(Conv2dWorkload.parse(layer), core, "direct")).hot_loop()
    sums = matching(NEON_SUM, body)
    assert len(sums) >= 4 * core.minimum_accumulators
    assert matching(NEON_LANE, body) == sums
    assert not spills(body)
    assert len(sums) >= 0.78 * len(body)


@pytest.mark.parametrize("layer", LAYERS[:2])
@pytest.mark.parametrize("core", HALVED, ids=lambda core: core.name)
def test_vectors_are_loaded_half_by_half(core, layer):
    kernel = make_kernel(Conv2dWorkload.parse(layer), core, "direct")
    # LLVM marks where assembly of others begins and ends
    body = [line for line in assembly(kernel).hot_loop() if not line.startswith("\t//")]
    tile = kernel.config["oc"] * kernel.config["ow"]
    assert len(matching(NEON_SUM, body)) >= 8 * tile
    assert not spills(body)
    code = [describe(" ".join(line.split("//")[0].split()), 4, "aarch64") for line in body]
    # a vector serves several FMAs, and the pixels of one kernel element serve the next one
    loads = sum(instruction.narrow_loads for instruction in code)
    assert 3 * loads < len(matching(NEON_SUM, body))
    assert loads == sum(instruction.insert for instruction in code)
    assert not any(instruction.wide_loads for instruction in code)
    if core.code.orders_sums:
        assert lone_inserts(code) <= 3
    assert len(body) <= len(matching(NEON_SUM, body)) + 3.5 * loads


@pytest.mark.parametrize("algorithm", ["im2col", "winograd", "strassen"])
def test_other_products_multiply_by_lanes_without_spills(algorithm):
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    code = assembly(make_kernel(workload, CORES[1], algorithm))
    assert len(matching(NEON_LANE, code.lines)) >= 4 * CORES[1].minimum_accumulators
    if algorithm != "winograd":
        # the loop of a transform has more FMAs than the loop of the products
        body = code.hot_loop()
        assert matching(NEON_LANE, body) == matching(NEON_SUM, body)
        assert not spills(body)


@pytest.mark.parametrize("layer", ["ic256ih14oc512kh3sh2ph1", "ic512ih7oc2048kh1"])
def test_im2col_takes_three_output_blocks_where_two_wait_for_sums(layer):
    """Four FMAs a cycle of four cycles each: seven pixels of two blocks are too few."""
    kernel = make_kernel(Conv2dWorkload.parse(layer), MACHINES["neoverse-v1"], "im2col")
    assert (kernel.config["oc"], kernel.config["mr"]) == (3, 7)
    body = assembly(kernel).hot_loop()
    assert len(matching(NEON_LANE, body)) >= 4 * 3 * 7
    assert not spills(body)


# Neoverse V2 loads fewer vectors in a cycle than it multiplies: with one row loads take longest
@pytest.mark.parametrize("core", CORES[:2], ids=lambda core: core.name)
@pytest.mark.parametrize("shape", [(1, 512, 1000), (1, 512, 4096), (64, 256, 512)], ids=str)
def test_fully_connected_layers_hide_the_latency_of_their_sums(shape, core):
    body = assembly(make_kernel(fully_connected(*shape), core, "dense")).hot_loop()
    sums = {re.findall(r"v\d+", line)[0] for line in matching(NEON_SUM, body)}
    assert len(sums) >= core.minimum_accumulators
    assert matching(NEON_LANE, body) == matching(NEON_SUM, body)
    assert not spills(body)


@pytest.mark.parametrize(
    "inputs, outputs, rows",
    [
        *((66, 44, rows) for rows in (1, 2, 3, 9, 20)),
        *((64, 10, 1), (64, 10, 9), (7, 3, 2), (7, 3, 20), (128, 1000, 3)),
    ],
)
def test_fully_connected_layers_by_lanes(rows, inputs, outputs):
    check_kernel(fully_connected(rows, inputs, outputs), LANES, "dense")


def test_short_rows_of_pixels_do_not_make_packing_worth_while():
    """384 to 64 channels: each value that im2col packs serves 64 FMAs only."""
    workload = Conv2dWorkload.parse("ic384ih14oc64kh1")
    for core in CORES[:2]:
        direct, packed = (
            sum(registry.explain_cost(name, workload, core, config).values())
            for name in ("direct", "im2col")
            for config in [default_config(name, workload, core)]
        )
        assert direct < packed


@pytest.mark.parametrize("layer", ["ic64ih56oc64kh3ph1", "ic128ih28oc128kh3ph1+bias+relu"])
def test_transforms_of_winograd_keep_to_the_registers(layer):
    """F(4x4, 3x3): no loop over tiles or columns has vectors on the stack."""
    workload = Conv2dWorkload.parse(layer)
    config = default_config("winograd", workload, CORES[1])
    config = config.replace(mh=4, mw=4, fused=1, rh=1, rw=workload.out_width // 4, rt=7, kr=1)
    code = assembly(make_kernel(workload, CORES[1], "winograd", config))
    loops = [body for body in code.loops() if matching(_ARITHMETIC, body)]
    # columns of a strip, tiles of a strip, products, rows of either parity
    assert len(loops) >= 5
    assert not any(spills(body) for body in loops)


def test_addresses_of_many_planes_stay_in_registers():
    """F(6x4, 3x3) has 48 of them: no loop of the transforms loads or stores one on the stack."""
    workload = Conv2dWorkload.parse("ic64ih56oc64kh3ph1")
    config = default_config("winograd", workload, CORES[1])
    config = config.replace(mh=6, mw=4, fused=1, rh=1, rw=14, rt=7, kr=3)
    code = assembly(make_kernel(workload, CORES[1], "winograd", config))
    loops = [body for body in code.loops() if matching(_ARITHMETIC, body)]
    # columns of a strip, rows and columns of planes, products of three blocks and of the last one
    assert len(loops) >= 1 + 8 + 6 + 2
    assert not any(matching(_ON_STACK, body) for body in loops)


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        *product(range(2, 7), ["ic5ih23iw26oc9kh3ph1+bias+relu"]),
        # a strip of several parts, and regions that are parts of a row
        *product((3, 6), ["ic4ih6iw241oc4kh3ph1"]),
        *product((2, 4), ["mb2ic4ih9iw9oc4kh3"]),
    ],
)
def test_winograd_by_strips_of_any_tile(size, problem):
    workload = Conv2dWorkload.parse(problem)
    offers = [c for c in registry.offers("winograd", workload, LANES) if c.int("mh") == size]
    # the offer with the fewest products by regions, the one with the most stage by stage
    check_kernel(workload, LANES, "winograd", offers[0])
    last = offers[-1]
    staged = {"fused": 0, "rh": 1, "rw": -(-workload.out_width // last.int("mw")), "rt": 1}
    check_kernel(workload, LANES, "winograd", last.replace(**staged))


def test_without_the_form_a_loop_spreads_each_scalar():
    plain = replace(CORES[0], code=replace(CORES[0].code, by_lane=False))
    workload = Conv2dWorkload.parse(LAYERS[0])
    loops = [
        assembly(make_kernel(workload, core, "direct")).hot_loop() for core in (CORES[0], plain)
    ]
    shares = [len(matching(NEON_SUM, body)) / len(body) for body in loops]
    assert shares[0] > 1.2 * shares[1]


def test_default_tiles_are_the_largest_that_fit_with_their_pixels():
    tiles = {
        "ic64ih56oc64kh3ph1": (2, 1, 8),
        "ic256ih14oc256kh3ph1": (2, 1, 7),
        "ic512ih7oc512kh3ph1": (2, 1, 7),
        "ic256ih14oc1024kh1": (3, 1, 7),
    }
    for layer, tile in tiles.items():
        model = TileModel(Conv2dWorkload.parse(layer), MACHINES["neoverse-n1"])
        assert model.best_tile() == tile, layer
        assert model.registers(*tile) <= 32


@pytest.mark.parametrize("shape", ["ih60oc32kh31", "ih99oc32kh31sh4dh2", "ih60oc3kh1kw41"])
def test_wide_kernels_have_tiles_too(shape):
    """Their taps are a loop, which keeps no pixels."""
    workload = Conv2dWorkload.parse(f"ic16{shape}")
    kernel = make_kernel(workload, CORES[1], "direct")
    tile = (kernel.config.int(name) for name in ("oc", "oh", "ow"))
    assert TileModel(workload, CORES[1]).registers(*tile) <= 32
    body = assembly(kernel).hot_loop()
    assert matching(NEON_LANE, body)
    assert not spills(body)


@pytest.mark.parametrize("knobs", [{"ow": 10}, {"oc": 4, "ow": 6}, {"fetch_input": 1}], ids=str)
def test_tiles_that_would_spill_and_prefetches_are_refused(knobs):
    workload = Conv2dWorkload.parse(LAYERS[0])
    config = default_config("direct", workload, CORES[1], **knobs)
    with pytest.raises(ConfigError, match=r"registers|fetch_input"):
        make_kernel(workload, CORES[1], "direct", config)


@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd", "im2win"])
@settings(max_examples=4)
@given(workload=conv2d_workloads(max_size=14).filter(dense))
def test_any_problem(algorithm, workload):
    if registry.algorithm(algorithm).unsupported(workload, LANES) is None:
        check_kernel(workload, LANES, algorithm)
