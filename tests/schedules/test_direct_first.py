"""Code that the first-layer schedule generates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.assembly import assembly
from tests.kernels import V4, default_config, each_target, reduction_nests, tasks
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import schedule
from tvmconv.machines.arm import MACHINES

LAYERS = (
    "ic3ih224oc64kh7sh2ph3:nchw+bias+relu",
    "ic3ih224oc64kh3ph1:nchw+bias+relu",
    "ic3ih224oc32kh3sh2ph1:nchw+clip(0,6)",
    "ic3ih227oc96kh11sh4:nchw",
)


@each_target
@pytest.mark.parametrize("problem", LAYERS)
def test_hot_loop_holds_its_accumulators_in_registers(machine, problem):
    workload = Conv2dWorkload.parse(problem)
    kernel = make_kernel(workload, machine, "direct_first")
    code = assembly(kernel)
    tile = kernel.config.int("oc") * kernel.config.int("tile_h") * kernel.config.int("tile_w")
    # whole taps of all three input channels; border tiles have loops of other sizes
    sizes = [(code.multiply_adds(loop), loop) for loop in code.loops()]
    interior = [loop for size, loop in sizes if size and size % (3 * tile) == 0]
    # no accumulator goes through memory; a full register file may keep a few weights on the stack
    assert min(len(code.spills(loop)) for loop in interior) <= tile // 3


@each_target
@pytest.mark.parametrize("problem", LAYERS)
def test_no_workspace(machine, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "direct_first")
    assert "AllocWorkspace" not in assembly(kernel).text
    assert kernel.expression.workspace_bytes(kernel.workload, machine, kernel.config) == 0


@each_target
def test_taps_of_a_row_are_unrolled_inside_channels(machine):
    workload, lanes = Conv2dWorkload.parse("ic3ih12oc16kh3sh2ph1:nchw+bias+relu"), machine.lanes
    config = default_config("direct_first", workload, machine, oc=1, tile_h=2, tile_w=2)
    nests = reduction_nests(make_kernel(workload, machine, "direct_first", config))
    parallel = "parallel 2, " if lanes == 8 else ""
    assert len(nests) == 5
    # rows and columns of inner tiles; kernel rows and channels; taps of a row; the tile
    assert nests[-1] == (
        f"{parallel}serial 2, serial 2, serial 3, serial 3, unrolled 3, unrolled 2, unrolled 2, "
        f"vectorized {lanes}"
    )
    assert all(nest.endswith(f"vectorized {lanes}") for nest in nests)


@each_target
@pytest.mark.parametrize("problem", [*LAYERS, "ic1ih1iw1oc1kh1:nchw", "ic15ih9oc40kh5ph2:nchw"])
def test_default_fits_the_registers(machine, problem):
    module = schedule("direct_first", machine)
    workload = Conv2dWorkload.parse(problem)
    config = default_config("direct_first", workload, machine)
    module.check(workload, machine, config)
    assert set(config) == set(module.KNOBS.values(workload, machine))
    assert module.predicted_cycles(workload, machine, config) > 0


@each_target
def test_columns_of_one_pixel_have_sums_to_spare(machine):
    """More than the latency of FMAs needs: a load that comes late must not delay them."""
    workload = Conv2dWorkload.parse("ic1ih200iw120oc64kh2kw120:nchw")
    config = default_config("direct_first", workload, machine)
    assert config.int("tile_w") == 1
    assert config.int("oc") * config.int("tile_h") >= 1.5 * machine.minimum_accumulators


@pytest.mark.parametrize(("core", "word"), [("cortex-a53", 1), ("cortex-a55", 0)])
def test_cycles_of_loads_that_block_count(core, word):
    """Two cycles a vector of weights; one for each pixel's dword, or none where it is free."""
    machine, workload = MACHINES[core].with_cores(1), Conv2dWorkload.parse(LAYERS[0])
    # twice the machine's; without it, code around FMAs would cost less, too
    late = replace(machine, code=replace(machine.code, loads_block=4.0))
    config = Config.of(oc=4, tile_h=1, tile_w=4, bands=1)
    blocked, longer = (
        schedule("direct_first", core).predicted_cycles(workload, core, config)
        for core in (machine, late)
    )
    steps = 112 * 112 // 4 * 16 // 4 * workload.taps
    assert longer - blocked == pytest.approx(steps * (2 * 4 + word * 4))


def test_knobs_must_be_positive():
    workload = Conv2dWorkload.parse(LAYERS[0])
    with pytest.raises(ConfigError, match="Expected 1 or more"):
        schedule("direct_first", V4).check(
            workload, V4, Config.of(oc=0, tile_h=1, tile_w=1, bands=1)
        )


def test_bands_feed_every_core():
    workload = Conv2dWorkload.parse("ic3ih224oc32kh3sh2ph1:nchw")
    machine = V4.with_cores(8)
    config = default_config("direct_first", workload, machine)
    kernel = make_kernel(workload, machine, "direct_first", config)
    assert max(tasks(kernel)) % machine.cores == 0
