"""The code of convolutions for any vector length; it is only compiled and read."""

from __future__ import annotations

import pytest

from tests.assembly import SVE_GATHER, SVE_LANE, SVE_STORE, SVE_SUM, assembly, matching, spills
from tests.kernels import scalable_kernel
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.scalable.direct import SegmentModel
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.presets import MACHINES

CORES = [MACHINES[name] for name in ("aarch64+sve", "neoverse-v1+sve", "ftengine")]
LAYERS = ["ic64ih56oc64kh3ph1", "ic256ih14oc1024kh1", "ic512ih7oc512kh3ph1+bias+add+relu"]
# a sum's first term is a product
FIRST = r"fmul\s+z\d+\.s, "


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
@pytest.mark.parametrize("layer", LAYERS)
def test_direct_multiplies_by_lanes_of_segments_without_spills(core, layer):
    kernel = scalable_kernel(Conv2dWorkload.parse(layer), core, "direct")
    body = assembly(kernel).hot_loop(SVE_LANE)
    sums = matching(SVE_LANE, body)
    tile = kernel.config.int("oc") * kernel.config.int("vectors")
    taps = kernel.workload.kernel_w
    assert len(sums) == 4 * taps * tile
    assert tile >= core.minimum_accumulators
    assert not spills(body)
    assert len(sums) >= 0.55 * len(body)


@pytest.mark.parametrize("core", [CORES[0], CORES[2]], ids=lambda core: core.name)
@pytest.mark.parametrize("layer", ["g64ic64ih28oc64kh3ph1", "g96ic96ih14oc96kh5ph2+bias+relu"])
def test_depthwise_multiplies_whole_segments_without_spills(core, layer):
    kernel = scalable_kernel(Conv2dWorkload.parse(layer), core, "depthwise")
    tile = kernel.config.int("tile_h") * kernel.config.int("vectors")
    body = assembly(kernel).hot_loop(SVE_SUM)
    assert len(matching(SVE_SUM, body)) == (kernel.workload.taps - 1) * tile
    assert len(matching(FIRST, body)) == tile
    assert not spills(body)


def test_depthwise_layers_with_a_stride_gather_pixels():
    """NEON's loads take as long, by estimates: the form is a knob's."""
    workload = Conv2dWorkload.parse("g8ic8ih14oc8kh3sh2ph1")
    config = registry.default_config("depthwise", workload, CORES[0])
    assert config["vectors"] == 0
    config = config.replace(tile_h=3, tile_w=1, vectors=1)
    body = assembly(make_kernel(workload, CORES[0], "depthwise", config)).hot_loop(SVE_SUM)
    # seven rows of three columns; rows that two outputs read are gathered once
    assert len(matching(SVE_GATHER, body)) == 21
    assert len(matching(SVE_SUM, body)) == 24
    assert len(matching(FIRST, body)) == 3
    assert not spills(body)


def test_the_products_of_winograd_are_the_same_loop():
    kernel = scalable_kernel(Conv2dWorkload.parse("ic64ih28oc64kh3ph1"), CORES[0], "winograd")
    code = assembly(kernel)
    tile = kernel.config.int("kr") * kernel.config.int("vectors")
    assert len(matching(SVE_LANE, code.lines)) >= 4 * tile
    # columns of a strip of the transforms
    columns = [body for body in code.loops() if matching(SVE_SUM, body)]
    assert columns and not any(spills(body) for body in columns)


def test_rows_are_joined_where_they_are_as_long_as_before_or_gathered():
    rows = {
        "ic8ih7oc8kh3ph1": 1,
        "ic8ih7oc8kh1": 1,
        "ic8ih7oc8kh3": 5,
        "ic8ih9oc8kh5ph2": 1,
        # gathered
        "ic8ih9oc8kh3sh2": 1,
    }
    for text, runs in rows.items():
        assert SegmentModel(Conv2dWorkload.parse(text), CORES[0]).rows == runs


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
@pytest.mark.parametrize("layer", ["ic128ih56oc128kh3sh2ph1", "ic256ih56oc512kh1sh2+bias+relu"])
def test_layers_with_a_stride_gather_each_vector_once(core, layer):
    kernel = scalable_kernel(Conv2dWorkload.parse(layer), core, "direct")
    body = assembly(kernel).hot_loop(SVE_LANE)
    taps, vectors = kernel.workload.kernel_w, kernel.config.int("vectors")
    assert len(matching(SVE_GATHER, body)) == taps * vectors
    assert len(matching(SVE_LANE, body)) == 4 * taps * vectors * kernel.config.int("oc")
    assert not spills(body)


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
@pytest.mark.parametrize(
    "layer", ["ic128ih56oc128kh3sh2ph1", "ic256ih14oc1024kh1", "ic3ih224oc64kh3ph1"]
)
def test_panels_are_packed_and_multiplied_by_vectors(core, layer):
    workload = Conv2dWorkload.parse(layer)
    default = registry.default_config("im2col", workload, core)
    # next to the default, FTEngine's tiles of 2VL by 8 and by 10
    configs = [default.replace(oc=oc, mr=48, mc=0, vectors=2) for oc in (8, 10)]
    for config in [default, *configs] if default["vectors"] else configs:
        code = assembly(make_kernel(workload, core, "im2col", config))
        body = code.hot_loop(SVE_LANE)
        channels = min(4, workload.in_channels)
        assert len(matching(SVE_LANE, body)) == channels * config.int("oc") * config.int("vectors")
        assert not matching(SVE_GATHER, body)
        assert not spills(body)
        packing = [loop for loop in code.loops() if matching(SVE_STORE, loop)]
        gathering = any(matching(SVE_GATHER, loop) for loop in packing)
        assert packing and gathering == (workload.stride_w > 1)


@pytest.mark.parametrize("knobs", [{"oc": 8, "vectors": 4}, {"vectors": 5}, {"ow": 2}], ids=str)
def test_tiles_that_do_not_fit_are_refused(knobs):
    workload = Conv2dWorkload.parse(LAYERS[0])
    config = registry.default_config("direct", workload, CORES[0]).replace(**knobs)
    with pytest.raises(ConfigError, match=r"registers|Expected 1 to 4|oh=1 ow=1"):
        make_kernel(workload, CORES[0], "direct", config)


@pytest.mark.parametrize("core", CORES[:2], ids=lambda core: core.name)
@pytest.mark.parametrize("layer", ["ic3ih224oc64kh3ph1:nchw", "ic3ih224oc64kh7sh2ph3:nchw"])
def test_stems_multiply_by_channels_of_a_copy(core, layer):
    workload = Conv2dWorkload.parse(layer)
    config = registry.default_config("direct_first", workload, core)
    assert config["vectors"]
    body = assembly(make_kernel(workload, core, "direct_first", config)).hot_loop(SVE_LANE)
    sums, gathers = len(matching(SVE_LANE, body)), len(matching(SVE_GATHER, body))
    tile = config.int("oc") * config.int("vectors")
    assert sums and sums % (3 * tile) == 0
    taps = sums // (3 * tile)
    assert gathers == (taps * config.int("vectors") if workload.stride_w > 1 else 0)
    # LLVM's order for Neoverse V1 spills neighboring positions of every tile
    assert not spills(body) or (core.mcpu, gathers) == ("neoverse-v1", 0)


def test_vectors_of_one_segment_leave_stems_to_neon_code():
    workload = Conv2dWorkload.parse("ic3ih224oc64kh3ph1:nchw")
    config = registry.default_config("direct_first", workload, MACHINES["neoverse-n2+sve"])
    assert config["vectors"] == 0


@pytest.mark.parametrize("core", CORES[:2], ids=lambda core: core.name)
def test_im2win_gathers_positions_of_strips(core):
    kernel = scalable_kernel(Conv2dWorkload.parse("ic64ih28oc64kh3ph1"), core, "im2win")
    body = assembly(kernel).hot_loop(SVE_LANE)
    vectors = kernel.config.int("vectors")
    sums, gathers = len(matching(SVE_LANE, body)), len(matching(SVE_GATHER, body))
    assert gathers and sums == 4 * kernel.config.int("oc") * gathers
    assert gathers % vectors == 0
    # LLVM loads weights far ahead of gathers if it orders code as for execution in order
    assert not spills(body) or core.code.loads_ahead


@pytest.mark.parametrize(
    "name, text, knobs",
    [
        ("direct_first", "ic3ih12oc64kh3ph1:nchw", {"oc": 8, "vectors": 4}),
        ("direct_first", "ic3ih12oc64kh3ph1:nchw", {"vectors": 5}),
        ("direct_first", "ic3ih12oc64kh3ph1:nchw", {"tile_w": 2}),
        ("im2win", "ic64ih28oc64kh3ph1", {"oc": 8, "vectors": 4}),
        ("im2win", "ic64ih28oc64kh3ph1", {"ow": 2}),
    ],
)
def test_tiles_of_stems_and_strips_that_do_not_fit_are_refused(name, text, knobs):
    workload = Conv2dWorkload.parse(text)
    config = scalable_kernel(workload, CORES[0], name).config.replace(**knobs)
    with pytest.raises(ConfigError, match=r"tile oc="):
        make_kernel(workload, CORES[0], name, config)
