"""Machine records: what they hold, and that older and damaged ones are told apart."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv.errors import TargetError
from tvmconv.machines.record import Machine, Rates, rates_from_json
from tvmconv.machines.x86 import MACHINES

V3, V4 = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]
RATES = [field.name for field in fields(Rates) if field.name != "origin"]
# as the first released form wrote it into manifests
FIRST_FORM = {
    "name": "native",
    "family": "x86",
    "isa": "avx512",
    "mcpu": "cascadelake",
    "lanes": 16,
    "vector_registers": 32,
    "fma_units": 2,
    "fma_latency": 4,
    "l1d_bytes": 32768,
    "l2_bytes": 1048576,
    "l3_bytes": 37486592,
    "cores": 2,
    "features": ["avx2", "fma", "avx512f"],
}


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


@pytest.mark.parametrize("machine", [V3, replace(V4, l3_bytes=0, rates=replace(V4.rates, l3=0.0))])
def test_records_survive_json(machine: Machine) -> None:
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine


def test_every_field_is_in_json() -> None:
    data = V4.to_json()
    assert set(data) == {field.name for field in fields(Machine)}
    for name in data:
        with pytest.raises((KeyError, TargetError)):
            Machine.from_json({k: v for k, v in data.items() if k != name})


def test_the_first_form_is_read_and_filled_up() -> None:
    machine = Machine.from_json(FIRST_FORM)
    kept = {name: value for name, value in machine.to_json().items() if name in FIRST_FORM}
    assert kept == {name: FIRST_FORM[name] for name in kept}
    assert (machine.lanes, machine.channel_block, machine.vector_registers) == (16, 16, 32)
    assert machine.rates == V4.rates
    assert replace(machine, features=V4.features) == replace(
        V4, name="native", mcpu="cascadelake", l3_bytes=37486592, cores=2
    )


def test_an_instruction_set_of_the_future_is_named() -> None:
    with pytest.raises(TargetError, match=r"'avx1024'.*avx2, avx512"):
        Machine.from_json({**FIRST_FORM, "isa": "avx1024"})


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e9, "2", None, True])
def test_no_rate_is_believed_that_no_core_has(name: str, value: object) -> None:
    data = {**V4.to_json()["rates"], name: value}
    with pytest.raises(ValueError, match=name):
        rates_from_json(data)


def test_only_an_l3_may_be_absent() -> None:
    data = V4.to_json()["rates"]
    assert rates_from_json({**data, "l3": 0}).behind_l2 == V4.rates.memory
    for name in RATES:
        if name != "l3":
            with pytest.raises(ValueError, match=name):
                rates_from_json({**data, name: 0})
