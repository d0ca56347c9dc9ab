"""Blocks of outputs of several groups, whose lanes select their channels, against float64."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from tests.kernels import V3, V4, alternating_machines, check_kernel, default_config
from tvmconv.algorithms.direct.channels import skips_channels
from tvmconv.algorithms.direct.direct import Direct, WholeBlocks
from tvmconv.algorithms.direct.group_lanes import channel_cut, selects_groups, tile_groups
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.machines.record import Machine
from tvmconv.machines.x86 import as_processor


def selecting(machine: Machine) -> Machine:
    return replace(machine, code=replace(machine.code, selects_lanes=True))


MACHINES = (selecting(V3), selecting(V4))
LAYERS = (
    "g3ic240ih4iw5oc60kh1+bias",
    "g3ic60ih4iw5oc84kh3ph1sh2+relu",
    "g4ic68ih5iw6oc68kh1+bias+relu",
    "g5ic10ih7iw4oc95kh1+bias",
    "g7ic91ih4iw4oc63kh3ph1dh1",
)


@alternating_machines("text, oc", list(product(LAYERS, (1, 2, 4))), MACHINES)
def test_results_are_right(text: str, oc: int, machine: Machine):
    workload = Conv2dWorkload.parse(text)
    assert selects_groups(workload, machine)
    assert not skips_channels(workload, machine)
    config = default_config("direct", workload, machine, oc=oc, oh=1, ow=2, rows=0)
    check_kernel(workload, machine, "direct", config)


def test_every_multiplication_counts():
    workload, machine = Conv2dWorkload.parse(LAYERS[0]), selecting(V4)
    assert Direct().multiplies(workload, machine, Config.of(oc=2)) == 4 * 5 * 64 * 80
    # the same blocks without selection: two of four multiply the channels of two groups
    assert Direct().multiplies(workload, V4, Config.of(oc=1)) == 4 * 5 * 16 * 6 * 80
    assert [tile_groups(workload, machine, oc) for oc in (1, 2, 4)] == [2, 2, 3]


def test_packed_weights_hold_the_channels_of_a_group_only():
    for text, cut in ((LAYERS[0], (5, 16)), (LAYERS[1], (5, 4)), (LAYERS[2], (17, 1))):
        workload, machine = Conv2dWorkload.parse(text), selecting(V4)
        assert channel_cut(workload, machine) == cut
        weight = np.arange(np.prod(workload.weight_shape), dtype=np.float32) + 1
        weight = weight.reshape(workload.weight_shape)
        packed = Direct().pack_weight(weight, workload, machine, Config.of(oc=2))
        assert np.array_equal(np.sort(packed[packed > 0]), weight.ravel())


def test_where_lanes_select():
    machine = selecting(V4)
    # whole blocks, groups of half a block, and a machine whose FMA units select
    for text in ("g2ic64ih5oc64kh1", "g8ic64ih5oc64kh1", "ic64ih5oc60kh1"):
        assert not selects_groups(Conv2dWorkload.parse(text), machine)
    workload = Conv2dWorkload.parse(LAYERS[0])
    assert not selects_groups(workload, V4)
    assert selects_groups(workload, as_processor(V4, "znver5"))
    # other algorithms read whole blocks
    assert WholeBlocks().packed_weight_shape(workload, machine, Config.of(oc=1))[1] == 10


def test_tiles_of_three_groups_pay_for_each_selection():
    workload, machine = Conv2dWorkload.parse("g3ic240ih28iw28oc60kh1"), selecting(V4)
    model = TileModel(workload, machine)
    assert model.cycles(4, 1, 6) > 1.5 * model.cycles(2, 1, 12)
    assert model.best_tile()[0] == 2
    dense = TileModel(workload, machine, skips=False)
    assert dense.registers(2, 1, 12) == model.registers(2, 1, 12) - 2
