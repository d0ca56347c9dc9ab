"""The contents of machine models."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv.machines.record import Machine
from tvmconv.machines.x86 import MACHINES

V3, V4 = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=str)
def test_records_are_consistent(machine: Machine) -> None:
    assert machine.vector.bits == {"avx2": 256, "avx512": 512}[machine.isa]
    assert machine.channel_block * 32 == machine.vector.bits
    assert machine.l1d_bytes < machine.l2_bytes < machine.l3_bytes
    assert machine.l1d_bytes % machine.l1d_way_bytes == 0
    assert machine.l1d_ways * machine.l1d_way_bytes <= machine.l1d_bytes
    # latency times throughput must fit the register file, or no tile could reach peak
    assert machine.minimum_accumulators < machine.vector_registers
    rates = machine.rates
    assert rates.l1 >= rates.l2 >= rates.l3 >= rates.memory > 0
    assert rates.l1 <= machine.load_ports * machine.vector_bytes
    assert rates.multiply_adds <= machine.fma_units
    assert rates.broadcasts <= machine.load_ports
    assert MACHINES[machine.name] is machine


def test_the_wider_machine_has_every_feature_of_the_narrower() -> None:
    assert set(V3.features) < set(V4.features)


@given(st.integers(1, 10_000), st.sampled_from([V3, V4]))
def test_blocks_hold_the_channels_with_less_than_one_spare(channels: int, machine: Machine) -> None:
    held = machine.blocks(channels) * machine.channel_block
    assert channels <= held < channels + machine.channel_block


def test_a_channel_block_is_no_vector() -> None:
    machine = replace(V3, channel_block=4)
    assert machine.blocks(9) == 3
    assert machine.lanes == 8


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        V4.cores = 8  # type: ignore[misc]
    assert V4.with_cores(3).cores == 3
