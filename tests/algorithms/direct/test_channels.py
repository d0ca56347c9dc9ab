"""Tiles whose input channels begin or end inside a block, against float64."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.kernels import V4, alternating_machines, check_kernel, default_config, each_machine
from tvmconv.algorithms.direct.channels import (
    channel_tests,
    dword_blocks,
    halves_of_block,
    skips_channels,
    tile_channels,
)
from tvmconv.algorithms.direct.direct import Direct
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.tvm_api import tirx

VNNI = resolve_machine("llvm -mcpu=icelake-server", 1)
LAYERS = (
    "ic24ih5iw7oc40kh1+bias+relu",
    "ic39ih6iw5oc20kh3ph1+bias",
    "g4ic68ih5iw6oc68kh1+bias+relu",
    "g3ic60ih4iw5oc84kh3ph1sh2",
    "g5ic10ih7iw4oc95kh1+bias",
    "g7ic91ih4iw4oc14kh3ph1dh1",
)


@alternating_machines("text, oc", list(product(LAYERS, (1, 2, 3))))
def test_results_are_right(text: str, oc: int, machine: Machine):
    workload = Conv2dWorkload.parse(text)
    assert skips_channels(workload, machine) == (machine == V4 or "ic24" not in text)
    tile = {"oc": oc, "oh": 1, "ow": 3, "rows": 0}
    config = default_config("direct", workload, machine, **tile)
    check_kernel(workload, machine, "direct", config)


@each_machine
def test_blocks_with_outputs_of_one_group_skip_the_blocks_of_other_groups(machine: Machine):
    workload = Conv2dWorkload.parse("g3ic48ih4iw5oc60kh1+bias")
    assert skips_channels(workload, machine)
    config = default_config("direct", workload, machine, oc=1, oh=1, ow=5, rows=0)
    lanes = machine.channel_block
    steps = {16: 16 + 32 + 32 + 16, 8: 16 * 7 + 32}[lanes]
    assert Direct().multiplies(workload, machine, config) == 20 * lanes * steps
    check_kernel(workload, machine, "direct", config)


def test_tiles_read_the_channels_of_their_groups():
    workload = Conv2dWorkload.parse("g4ic68ih5iw6oc68kh1")
    assert tile_channels(workload, V4, 1) == ((0, 17), (0, 34), (17, 51), (34, 68), (51, 68))
    assert tile_channels(workload, V4, 2) == ((0, 34), (17, 68), (51, 68))
    # 16 outputs of each tile's blocks, 30 pixels
    for oc, channels in ((1, 17 + 34 + 34 + 34 + 17), (2, 2 * 34 + 2 * 51 + 17)):
        found = Direct().multiplies(workload, V4, Config.of(oc=oc))
        assert found == 16 * 30 * channels


def test_whole_blocks_need_no_tests():
    for text in ("ic64ih5oc40kh1", "g2ic64ih5oc64kh1", "g16ic64ih5oc64kh1", "ic7ih5oc40kh1"):
        assert not skips_channels(Conv2dWorkload.parse(text), V4)
    dense = Conv2dWorkload.parse("ic24ih5oc40kh1")
    tile, step = tirx.Var("tile", "int32"), tirx.Var("c", "int32")
    (test,) = channel_tests(dense, V4, tile, 2, 1, step)
    assert str(test) == "c < 8"


def test_half_a_block_without_channels_is_skipped():
    # a block of 16 channels has four dwords
    iterations = {24: (3, 2), 20: (3, 2), 72: (9, 2), 28: (2, 4), 32: (2, 4), 8: (1, 2)}
    for channels, expected in iterations.items():
        workload = Conv2dWorkload.parse(f"ic{channels}ih5oc32kh3ph1:u8s8s32s32")
        assert dword_blocks(workload, VNNI) == expected
        config, (blocks, dwords) = Config.of(oc=2), expected
        assert Direct().packed_weight_shape(workload, VNNI, config)[3:5] == expected
        assert Direct().multiplies(workload, VNNI, config) == 32 * 25 * 9 * 4 * blocks * dwords
        # panels are made of whole blocks
        whole = -(-channels // 16), min(4, channels // 4)
        assert dword_blocks(workload, VNNI, halves=False) == whole
        # a vector of FP32 values, or dwords by lane, have other ways
        assert halves_of_block(Conv2dWorkload.parse(f"ic{channels}ih5oc32kh3ph1"), VNNI) == 1


def test_weights_of_a_skipped_half_are_not_packed():
    workload = Conv2dWorkload.parse("ic24ih5oc32kh1:u8s8s32s32")
    weight = np.arange(1, 32 * 24 + 1).reshape(32, 24, 1, 1).astype(np.int16)
    packed = Direct().pack_weight(weight, workload, VNNI, Config.of(oc=2))
    assert np.array_equal(np.sort(packed.ravel()), weight.ravel())
    assert packed[0, 0, 0, 2, 1, 1, 5, 3] == weight[16 + 5, 2 * 8 + 4 + 3, 0, 0]
