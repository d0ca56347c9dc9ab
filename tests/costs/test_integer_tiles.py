"""Tiles of 8-bit layers, and processors whose products of integers are slower."""

from __future__ import annotations

import pytest

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.kernels import registry
from tvmconv.machines.multiply import multiplications_a_cycle, multiply_of_bytes, steps_a_cycle
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine

ZEN4 = resolve_machine("llvm -mcpu=znver4", 1)


def machine(name: str) -> Machine:
    return resolve_machine(f"llvm -mcpu={name}", 1)


@pytest.mark.parametrize(
    ("name", "steps", "multiplications"),
    [
        ("haswell", 1.0, 1.0),
        ("broadwell", 1.0, 1.0),
        ("znver1", 0.5, 0.5),
        ("znver2", 1.0, 1.0),
        ("skylake", 1.6, 2.0),
        ("znver3", 1.6, 2.0),
    ],
)
def test_processors_multiply_integers_at_their_own_rate(
    name: str, steps: float, multiplications: float
):
    found = machine(name)
    assert multiply_of_bytes(found).name == "vpmaddwd"
    assert steps_a_cycle(multiply_of_bytes(found), found) == pytest.approx(steps)
    assert multiplications_a_cycle(found) == multiplications


def test_products_of_bytes_gain_by_multiplications_and_additions():
    """Steps in twos: three multiplications for four by pairs, and two additions for four.

    With one multiplying unit, the additions count for little.
    """
    workload = Conv2dWorkload.parse("ic512ih28oc128kh1:u8s8s32u8+bias")

    def gain(name: str) -> float:
        found = machine(name)
        cycles = [
            registry.schedule(algorithm, found).predicted_cycles(
                workload, found, registry.default_config(algorithm, workload, found)
            )
            for algorithm in ("direct", "direct_bytes")
        ]
        return float(cycles[0] / cycles[1])

    assert 1.1 < gain("haswell") < 1.2 < gain("skylake")


@pytest.mark.parametrize("text", ["ic64ih56oc256kh1", "ic256ih56oc64kh1", "ic512ih7oc2048kh1"])
def test_pixelwise_tiles_share_dwords_between_blocks(text: str):
    model = TileModel(Conv2dWorkload.parse(f"{text}:u8s8s32u8+bias"), ZEN4)
    blocks, rows, columns = model.best_tile()
    assert blocks > 1 and model.registers(blocks, rows, columns) < ZEN4.vector_registers - 1


def test_small_planes_take_tiles_of_several_rows():
    model = TileModel(Conv2dWorkload.parse("ic512ih7oc512kh3ph1:u8s8s32u8:zpdata+bias"), ZEN4)
    assert model.best_tile() == (1, 4, 7)
