"""Machine models as data: present and older forms, and refused values."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from tvmconv.core.errors import TargetError
from tvmconv.machines.record import Machine, Rates
from tvmconv.machines.stored import read_machine, read_rates
from tvmconv.machines.x86 import MACHINES, with_tiles

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


@pytest.mark.parametrize(
    "machine",
    [V3, replace(V4, l3_bytes=0, rates=replace(V4.rates, l3=0.0)), with_tiles(V4)],
    ids=["avx2", "without L3", "tiles"],
)
def test_records_survive_json(machine: Machine) -> None:
    assert read_machine(json.loads(json.dumps(machine.to_json()))) == machine


def test_every_field_is_in_json() -> None:
    data = V4.to_json()
    assert set(data) == {field.name for field in fields(Machine)}
    for name in data.keys() - {"tiles"}:
        with pytest.raises((KeyError, TargetError)):
            read_machine({k: v for k, v in data.items() if k != name})


def test_records_from_before_tiles_have_none() -> None:
    data = V4.to_json()
    del data["tiles"]
    assert read_machine(data) == V4


def test_the_first_form_is_read_and_filled_up() -> None:
    machine = read_machine(FIRST_FORM)
    kept = {name: value for name, value in machine.to_json().items() if name in FIRST_FORM}
    assert kept == {name: FIRST_FORM[name] for name in kept}
    assert (machine.lanes, machine.channel_block, machine.vector_registers) == (16, 16, 32)
    assert machine.rates == V4.rates
    assert replace(machine, features=V4.features) == replace(
        V4, name="native", mcpu="cascadelake", l3_bytes=37486592, cores=2
    )


def test_an_instruction_set_of_the_future_is_named() -> None:
    with pytest.raises(TargetError, match=r"'avx1024'.*avx2, avx512"):
        read_machine({**FIRST_FORM, "isa": "avx1024"})


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e9, "2", None, True])
def test_no_rate_is_believed_that_no_core_has(name: str, value: object) -> None:
    data = {**V4.to_json()["rates"], name: value}
    with pytest.raises(ValueError, match=name):
        read_rates(data)


def test_only_an_l3_may_be_absent_and_a_rate_unknown() -> None:
    data = V4.to_json()["rates"]
    assert read_rates({**data, "l3": 0}).behind_l2 == V4.rates.memory
    assert read_rates({**data, "words": 0}) == V4.rates
    assert read_rates({**data, "all_memory": 0}) == V4.rates
    for name in RATES:
        if name not in ("l3", "words", "all_memory"):
            with pytest.raises(ValueError, match=name):
                read_rates({**data, name: 0})
