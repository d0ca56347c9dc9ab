"""Default tiles of first layers on Arm: those with the fewest estimated cycles, or near them."""

from __future__ import annotations

import pytest

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_first_lanes import LaneTiles
from tvmconv.kernels import registry
from tvmconv.machines.targets import resolve_machine

VGG = "ic3ih224oc64kh3ph1:nchw+bias+relu"
MOBILE = "ic3ih224oc32kh3sh2ph1:nchw+bias+clip(0,6)"
RESNET = "ic3ih224oc64kh7sh2ph3:nchw+bias+relu"
ALEX = "ic3ih227oc96kh11sh4:nchw+bias+relu"
GRAY = "ic1ih224oc64kh5ph2:nchw+bias+relu"
LAYERS = (VGG, MOBILE, RESNET, ALEX, GRAY)
# blocks, rows and columns for these layers
TILES = {
    "neoverse-n1": ((4, 4, 1), (4, 4, 1), (4, 6, 1), (4, 3, 2), (4, 4, 1)),
    "neoverse-v1": ((4, 4, 1), (4, 4, 1), (4, 6, 1), (4, 5, 1), (4, 4, 1)),
    "cortex-a72": ((4, 4, 1), (4, 4, 1), (4, 6, 1), (4, 3, 2), (4, 4, 1)),
    "cortex-a53": ((4, 6, 1), (4, 1, 6), (4, 2, 3), (4, 2, 3), (4, 2, 2)),
    "aarch64": ((4, 4, 1), (4, 4, 1), (4, 6, 1), (4, 3, 2), (4, 4, 1)),
}


def default(problem: str, target: str) -> Config:
    machine, workload = resolve_machine(target, 1), Conv2dWorkload.parse(problem)
    config = registry.default_config("direct_first", workload, machine)
    registry.schedule("direct_first", machine).check(workload, machine, config)
    return config


def tile(problem: str, target: str) -> tuple[int, ...]:
    config = default(problem, target)
    return tuple(config.int(knob) for knob in ("oc", "tile_h", "tile_w"))


@pytest.mark.parametrize("target", TILES)
def test_default_tiles_are_the_estimated_best(target: str) -> None:
    assert tuple(tile(problem, target) for problem in LAYERS) == TILES[target]


def test_neon_code_of_processors_with_sve_has_the_same_tiles() -> None:
    config = default(VGG, "neoverse-n2+sve")
    assert config["vectors"] == 0
    assert (config["oc"], config["tile_h"], config["tile_w"]) == (4, 4, 1)


@pytest.mark.parametrize(
    ("problem", "blocks"),
    [("ic3ih64oc4kh3ph1:nchw", 1), ("ic3ih64oc24kh3ph1:nchw", 3), ("ic3ih64oc20kh3ph1:nchw", 3)],
)
def test_blocks_of_tiles_divide_all_blocks_evenly(problem: str, blocks: int) -> None:
    assert tile(problem, "neoverse-n1")[0] == blocks


def test_pixels_that_later_taps_read_again_have_registers() -> None:
    """Two columns of an unrolled 3x3 kernel keep a pixel for each row and channel, one none."""
    machine = resolve_machine("neoverse-n1", 1)
    model = LaneTiles(Conv2dWorkload.parse(VGG), machine)
    # accumulators, pixels, weights, and two loads ahead
    held = 16 + 4 + (2 + 4) + 2
    assert model.registers(4, 4, 1) == held
    assert model.registers(4, 2, 2) == held + 2 * 3
    # the row of this tile stays a loop
    assert model.registers(4, 6, 1) == 24 + 6 + 2


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        # the left and right border have six copies of code, here four
        ("ic3ih64oc64kh7ph3:nchw", (4, 6, 1)),
        ("ic3ih64oc64kh9ph4:nchw", (4, 3, 2)),
        # rows of 39 taps have code for ranges of taps at the border
        ("ic8ih172iw264oc8oh172ow264kh3kw39ph1pw19:nchw", (2, 1, 10)),
        # one row, and one column
        ("ic1ih1iw4096oc64kh1kw64sw16:nchw", (4, 1, 6)),
        ("ic1ih200iw120oc64kh2kw120:nchw", (4, 5, 1)),
    ],
)
def test_border_code_is_limited(problem: str, expected: tuple[int, ...]) -> None:
    assert tile(problem, "neoverse-n1") == expected
