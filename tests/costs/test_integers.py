"""Costs of INT8 layers: rates of dot products, and the selections that follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import V3
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.direct_first import DwordTiles
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.multiply import multiply_of_bytes, steps_a_cycle
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring import suites
from tvmconv.selection.select import select

ICELAKE = resolve_machine("llvm -mcpu=icelake-server", 1)
ZEN4 = resolve_machine("llvm -mcpu=znver4", 1)


@pytest.mark.parametrize(("machine", "rate"), [(V3, 1.6), (ICELAKE, 2.0), (ZEN4, 1.0)])
def test_products_of_dwords_in_a_cycle(machine: Machine, rate: float):
    assert steps_a_cycle(multiply_of_bytes(machine), machine) == pytest.approx(rate)
    assert read_machine(machine.to_json()) == machine


@pytest.mark.parametrize(("machine", "rate"), [(ICELAKE, 2.0), (ZEN4, 1.0)])
def test_stems_are_predicted_at_the_rate_of_dwords(machine: Machine, rate: float):
    w = Conv2dWorkload.parse("ic3ih224oc64kh7sh2ph3:nchw:u8s8s32u8:zpdata+bias")
    steps = 2 * 7 * 3 * w.out_height * w.out_width * w.out_channels / machine.lanes
    tiles = DwordTiles(w, machine)
    assert steps / rate < tiles.call_cycles(tiles.best()) < 1.5 * steps / rate


def test_a_measured_rate_goes_before_the_share_of_multiply_adds():
    measured = replace(V3, rates=replace(V3.rates, words=1.5))
    assert steps_a_cycle(multiply_of_bytes(measured), measured) == 1.5


@pytest.mark.parametrize(("channels", "words"), [(3, 1), (16, 4), (20, 6), (24, 6), (28, 8)])
def test_halves_of_blocks_are_read_but_for_a_single_one(channels: int, words: int):
    workload = Conv2dWorkload.parse(f"ic{channels}ih8oc16kh3ph1:u8s8s32s32")
    assert TileModel(workload, ICELAKE).steps == 9 * words


def test_rounding_costs_the_same_for_any_reduction():
    def extra(channels: int) -> float:
        sums, rounded = (
            TileModel(Conv2dWorkload.parse(f"ic{channels}ih8oc16kh3ph1:u8s8s32{out}"), ICELAKE)
            for out in ("s32", "u8")
        )
        return rounded.tile_cycles(2, 14) - sums.tile_cycles(2, 14)

    assert extra(16) == pytest.approx(extra(256))
    assert extra(16) > 0


@pytest.mark.parametrize("machine", [ZEN4, V3], ids=["vnni", "avx2"])
def test_choices_are_those_that_were_measured_fastest(machine: Machine):
    """On Zen 4: large planes by the largest tile, small ones of many weights by less."""
    tiles = {}
    for layer in suites.load("quantised_winograd"):
        w = layer.workload
        if w.data_layout == "NCHWc":
            config = select(w, machine, facts=WeightFacts.usual_weights(w)).chosen.config
            tiles[layer.name] = (config.get("mh", 1), config.get("mw", 1))
    last = tiles.pop("conv4 7x7x512")
    assert (last == (1, 1)) == (machine is ZEN4)
    for name, tile in tiles.items():
        assert tile != (1, 1)
        assert "14x14" in name or tile == (4, 4), name
