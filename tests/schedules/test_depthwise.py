"""Code that the depthwise schedule generates."""

from __future__ import annotations

import re

import pytest

from tests.assembly import assembly, matching
from tests.kernels import V4, default_config, each_target, predicates, reduction_nests, tasks
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import schedule
from tvmconv.machines.presets import MACHINES


@each_target
@pytest.mark.parametrize("stride", [1, 2])
def test_hot_loop_is_one_tile_of_multiply_adds(machine, stride):
    workload = Conv2dWorkload.parse(f"g32ic32ih56oc32kh3sh{stride}ph1+bias+relu")
    kernel = make_kernel(workload, machine, "depthwise")
    code = assembly(kernel)
    loop = code.hot_loop()
    tile = kernel.config.int("tile_h") * kernel.config.int("tile_w")
    # the first tap of each output may be a plain multiplication
    assert 8 * tile <= code.multiply_adds(loop) <= 9 * tile
    assert len(code.stores(loop)) == tile


def test_short_rows_are_one_tile_and_only_cores_in_order_have_rows_for_latency():
    def tile(name, problem):
        config = default_config("depthwise", Conv2dWorkload.parse(problem), MACHINES[name])
        return config.int("tile_h"), config.int("tile_w")

    for name in ("neoverse-n1", "neoverse-v1"):
        assert tile(name, "g32ic32ih14oc32kh3ph1") == (1, 14)
        # two rows of eight columns, stride 2, would need more registers than there are
        assert tile(name, "g32ic32ih112oc32kh3sh2ph1") == (1, 8)
    assert tile("neoverse-v1", "g32ic32ih4oc32kh3ph1") == (1, 4)
    # rows apart share no pixels
    assert tile("cortex-a53", "g32ic32ih8oc32kh3sh2ph1") == (2, 4)


def test_rows_of_a_tile_share_pixels_where_loads_hold_up_multiply_adds():
    for name in ("cortex-a53", "cortex-a55"):
        for problem, tile in (
            ("g32ic32ih112oc32kh3ph1", (3, 4)),
            # 1x8, with all pixels of a row and the weights, exceeds the registers
            ("g32ic32ih112oc32kh3sh2ph1", (1, 7)),
            ("g32ic32ih28oc32kh5sh2ph2", (2, 4)),
            ("g32ic32ih28oc32kh5ph2", (1, 7)),
            ("g32ic32ih28oc32kh3dh1ph2", (1, 7)),
            ("g32ic32ih28oc32kh7ph3", (1, 7)),
        ):
            workload, machine = Conv2dWorkload.parse(problem), MACHINES[name]
            config = default_config("depthwise", workload, machine)
            assert (config.int("tile_h"), config.int("tile_w")) == tile, problem


def test_overlapping_rows_load_each_pixel_of_a_tile_once():
    workload = Conv2dWorkload.parse("g32ic32ih112oc32kh3ph1")
    kernel = make_kernel(workload, MACHINES["cortex-a53"], "depthwise")
    body = assembly(kernel).hot_loop(r"fml[as]\s")
    loads = matching(r"ld\w+\s+q", body)
    vectors = sum(len(re.findall(r"\bq\d+", line)) for line in loads)
    # 5 x 6 pixels for 12 outputs; at most two weights are read again
    assert sum("fml" in line for line in body) >= 12 * 8
    assert vectors <= 32


@each_target
def test_no_workspace(machine):
    for problem in ("g32ic32ih56oc32kh3ph1", "g32ic32ih23oc32kh5sh2ph2", "g16ic16ih9oc16kh9ph4"):
        kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "depthwise")
        assert "AllocWorkspace" not in assembly(kernel).text
        assert kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config) == 0


def test_nothing_spills_with_32_registers():
    for problem in ("g32ic32ih56oc32kh3ph1+bias+relu", "g32ic32ih56oc32kh3sh2ph1+clip(0,6)"):
        code = assembly(make_kernel(Conv2dWorkload.parse(problem), V4, "depthwise"))
        assert code.spills(code.hot_loop()) == []


def test_planes_add_to_one_tile_in_registers():
    workload = Conv2dWorkload.parse("g32ic32id8ih56oc32kd3kh3pd1ph1+bias+relu")
    code = assembly(make_kernel(workload, V4, "depthwise"))
    # over the planes; the branch inside leaves out those beyond the volume
    body = max(code.loops(), key=code.multiply_adds)
    assert code.multiply_adds(body) >= 8 * 9 - 3
    assert code.spills(body) == code.stores(body) == []


def test_interior_rows_carry_no_predicate():
    kernel = make_kernel(Conv2dWorkload.parse("g16ic16ih32oc16kh3ph1"), V4, "depthwise")
    assert not predicates(kernel)


@each_target
def test_border_rows_and_inner_rows_are_separate_nests(machine):
    workload, lanes = Conv2dWorkload.parse("g16ic16ih8oc16kh3ph1+bias+relu"), machine.lanes
    config = default_config("depthwise", workload, machine, tile_h=2, tile_w=4)
    parallel = "parallel 2, " if lanes == 8 else ""
    shorter, whole = f"unrolled 3, vectorized {lanes}", f"unrolled 4, vectorized {lanes}"
    assert reduction_nests(make_kernel(workload, machine, "depthwise", config)) == [
        # first row of taps at the upper border: one of the tile's two rows has it
        f"{parallel}{shorter}",
        f"{parallel}unrolled 2, {whole}",
        # the other taps of border tiles
        f"{parallel}unrolled 2, unrolled 2, {shorter}",
        f"{parallel}unrolled 2, unrolled 2, unrolled 2, {whole}",
        # inner tiles: all three rows of taps
        f"{parallel}serial 2, unrolled 3, unrolled 2, {shorter}",
        f"{parallel}serial 2, unrolled 3, unrolled 2, unrolled 2, {whole}",
    ]


@each_target
def test_default_fits_and_every_knob_value_is_checked(machine):
    module = schedule("depthwise", machine)
    for problem in ("g32ic32ih112oc32kh3ph1", "g8ic8ih1iw1oc8kh1", "g64ic64ih7oc64kh7ph3"):
        workload = Conv2dWorkload.parse(problem)
        config = default_config("depthwise", workload, machine)
        module.check(workload, machine, config)
        assert set(config) == set(module.KNOBS.values(workload, machine))
        assert module.predicted_cycles(workload, machine, config) > 0
    with pytest.raises(ConfigError, match="Expected 1 or more"):
        module.check(workload, machine, Config.of(tile_h=0, tile_w=1, bands=1))


def test_bands_feed_every_core():
    workload = Conv2dWorkload.parse("g32ic32ih112oc32kh3ph1")
    machine = V4.with_cores(8)
    config = default_config("depthwise", workload, machine)
    kernel = make_kernel(workload, machine, "depthwise", config)
    assert max(tasks(kernel)) % machine.cores == 0
