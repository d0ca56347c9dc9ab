"""The cost model of AMX tiles: its bounds, and the groups that it accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tiles_machine import TILES
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_tiles import TileUnitModel
from tvmconv.kernels import registry

LAYERS = [
    "ic64ih56oc256kh1:u8s8s32u8+bias",
    "ic1024ih14oc256kh1:u8s8s32u8+bias+quantise+add",
    "ic128ih56oc128kh3sh2ph1:u8s8s32u8:zpdata+bias",
    "ic512ih7oc512kh3ph1:u8s8s32u8:zpdata+bias",
    "ic3ih224oc64kh7sh2ph3:u8s8s32u8:zpdata+bias",
    "mb3ic20ih5oc10kh1:u8s8s32s32",
    "ic512ih1oc1000kh1:u8s8s32u8+bias",
]
# MACs of one instruction, and its cycles
_PRODUCT, _CYCLES = 16 * 16 * 64, 16


@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize("text", LAYERS)
def test_no_prediction_beats_the_unit(text: str, cores: int):
    workload, machine = Conv2dWorkload.parse(text), TILES.with_cores(cores)
    model = TileUnitModel(workload, machine)
    for config in model.configs():
        done = registry.algorithm("direct_tiles").multiplies(workload, machine, config)
        least = done / _PRODUCT * _CYCLES / cores
        assert sum(model.parts(config).values()) >= least * (1 - 1e-9), config


@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize("text", LAYERS)
def test_what_it_offers_can_be_built(text: str, cores: int):
    workload, machine = Conv2dWorkload.parse(text), TILES.with_cores(cores)
    for config in TileUnitModel(workload, machine).configs():
        registry.check("direct_tiles", workload, machine, config)


@pytest.mark.parametrize("text", LAYERS)
def test_a_slower_unit_and_slower_caches_are_never_predicted_to_be_faster(text: str):
    workload = Conv2dWorkload.parse(text)
    cycles = sum(TileUnitModel(workload, TILES).parts(best(text)).values())
    assert TILES.tiles is not None
    for slower in (
        replace(TILES, tiles=replace(TILES.tiles, rows_a_cycle=0.5)),
        replace(TILES, rates=replace(TILES.rates, l2=8.0)),
        replace(TILES, rates=replace(TILES.rates, memory=1.0)),
    ):
        assert sum(TileUnitModel(workload, slower).parts(best(text)).values()) >= cycles


def test_epilogues_count_where_sums_are_short():
    plain, residual = (
        TileUnitModel(Conv2dWorkload.parse(f"ic64ih56oc256kh1:u8s8s32u8+bias{more}"), TILES)
        for more in ("", "+quantise+add")
    )
    config = plain.best()
    assert residual.group_cycles(config) > 2 * plain.group_cycles(config)


def test_copies_of_pieces_stay_in_a_part_of_l2():
    workload = Conv2dWorkload.parse("ic256ih56oc64kh1:u8s8s32u8+bias")
    for config in TileUnitModel(workload, TILES).configs():
        size = registry.algorithm("direct_tiles").workspace_bytes(workload, TILES, config)
        assert size <= TILES.l2_bytes // 4


def best(text: str):
    return TileUnitModel(Conv2dWorkload.parse(text), TILES).best()
