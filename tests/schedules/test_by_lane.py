"""Kernels whose multiply-adds take lanes: their numbers, and the code for 64-bit Arm.

The numbers are computed here, by a record with the vectors of such machines and instructions that
this host executes; the code is only compiled and read.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.kernels import HOST, V3, check_kernel, compile_kernel, default_config, dense
from tests.strategies import conv2d_workloads
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.register_tile import TileModel
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Vector

LANES = replace(
    HOST,
    name="lanes",
    vector=Vector(bits=128, registers=32),
    channel_block=4,
    code=replace(V3.code, by_lane=True),
)
CORES = [MACHINES["cortex-a72"], MACHINES["neoverse-n1"], MACHINES["neoverse-v2"]]
LAYERS = [
    "ic64ih56oc64kh3ph1",
    "ic256ih14oc1024kh1",
    "ic128ih28oc128kh3ph1+bias+relu",
    "ic512ih7oc512kh3ph1+bias+add+relu",
    "ic128ih56oc128kh3sh2ph1",
    "ic256ih28oc64kh1sh2",
    "ic64ih27oc192kh5ph2",
]
_SUM = re.compile(r"\s*fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.4s|\s*fmla\s.*v\d+\.s\[\d\]")
_LANE = re.compile(r"\s*fmla\s.*\bv\d+\.s\[\d\]")
_STACK = re.compile(r"\s*(?:st|ld)\w+\s+[qv]\d+.*\[sp")
_JUMP = re.compile(r"\s+(?:b\.\w+|b|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.L\w+)")


def hot_loop(kernel, sums=_SUM):
    """The innermost loop with the most multiply-adds in AArch64 assembly."""
    lines = str(compile_kernel(kernel).inspect_source("s")).splitlines()
    labels = {line.split(":")[0]: i for i, line in enumerate(lines) if line.startswith(".L")}
    jumps = [(i, _JUMP.match(line)) for i, line in enumerate(lines)]
    spans = [(labels[m[1]], i) for i, m in jumps if m and labels.get(m[1], i) < i]
    inner = [
        (a, b) for a, b in spans if not any((a, b) != (c, d) and a <= c <= d <= b for c, d in spans)
    ]
    bodies = [[line for line in lines[a : b + 1] if line[:1] == "\t"] for a, b in inner]
    return max(bodies, key=lambda body: len(matching(sums, body)))


def matching(pattern, body):
    return [line for line in body if pattern.match(line)]


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
@pytest.mark.parametrize("layer", LAYERS)
def test_direct_multiplies_by_lanes_without_spills(core, layer):
    body = hot_loop(make_kernel(Conv2dWorkload.parse(layer), core, "direct"))
    sums = matching(_SUM, body)
    assert len(sums) >= 4 * core.minimum_accumulators
    assert matching(_LANE, body) == sums
    assert not matching(_STACK, body)
    assert len(sums) >= 0.78 * len(body)


@pytest.mark.parametrize("algorithm", ["im2col", "winograd"])
def test_other_products_multiply_by_lanes_without_spills(algorithm):
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    assembly = str(
        compile_kernel(make_kernel(workload, CORES[1], algorithm)).inspect_source("s")
    ).splitlines()
    assert len(matching(_LANE, assembly)) >= 4 * CORES[1].minimum_accumulators
    if algorithm == "im2col":
        # of Winograd's loops, that of a transform has more multiply-adds than the products
        body = hot_loop(make_kernel(workload, CORES[1], algorithm))
        assert matching(_LANE, body) == matching(_SUM, body)
        assert not matching(_STACK, body)


def test_without_the_form_a_loop_spreads_each_scalar():
    plain = replace(CORES[0], code=replace(CORES[0].code, by_lane=False))
    workload = Conv2dWorkload.parse(LAYERS[0])
    loops = [hot_loop(make_kernel(workload, core, "direct")) for core in (CORES[0], plain)]
    shares = [len(matching(_SUM, body)) / len(body) for body in loops]
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
    body = hot_loop(kernel)
    assert matching(_LANE, body)
    assert not matching(_STACK, body)


@pytest.mark.parametrize("knobs", [{"ow": 10}, {"oc": 4, "ow": 6}, {"fetch_input": 1}], ids=str)
def test_tiles_that_would_spill_and_prefetches_are_refused(knobs):
    workload = Conv2dWorkload.parse(LAYERS[0])
    config = default_config("direct", workload, CORES[1], **knobs)
    with pytest.raises(ConfigError, match=r"registers|fetch_input"):
        make_kernel(workload, CORES[1], "direct", config)


@pytest.mark.parametrize("algorithm", ["direct", "im2col", "winograd", "im2win"])
@settings(max_examples=6)
@given(workload=conv2d_workloads(max_size=14).filter(dense))
def test_any_problem(algorithm, workload):
    if registry.algorithm(algorithm).unsupported(workload, LANES) is None:
        check_kernel(workload, LANES, algorithm)
