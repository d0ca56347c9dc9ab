"""Records and targets of processors with scalable vectors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tvm.target import Target

from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.machines import gate, host, sve
from tvmconv.machines.features import required_features
from tvmconv.machines.gate import ensure_machine, lacks
from tvmconv.machines.host import native_machine
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.machines.targets import resolve_machine

each_record = pytest.mark.parametrize("machine", sve.MACHINES.values(), ids=lambda m: m.name)
A64FX = sve.MACHINES["a64fx"]
SVE_FLAGS = frozenset({"fp", "asimd", "sve"})
GNU = "llvm -mtriple=aarch64-linux-gnu"


@each_record
def test_records_are_consistent(machine: Machine) -> None:
    assert machine.vector.scalable == (machine is not A64FX)
    assert machine.channel_block == machine.lanes
    assert machine.segments * 128 == machine.vector.bits
    assert machine.minimum_accumulators < machine.vector_registers
    assert machine.l1d_ways * machine.l1d_way_bytes == machine.l1d_bytes < machine.l2_bytes
    rates = machine.rates
    assert rates.l1 >= rates.l2 >= rates.behind_l2 >= rates.memory > 0
    assert (rates.l3 > 0) == (machine.l3_bytes > 0)
    assert rates.multiply_adds <= machine.fma_units
    assert 0 < machine.vector.rate <= 1
    assert MACHINES[machine.name] is machine
    assert resolve_machine(machine.name, 3) == machine.with_cores(3)
    assert read_machine(machine.to_json()) == machine


def test_fixed_length_code_next_to_scalable_code_is_neon_code() -> None:
    for name in ("neoverse-v1", "neoverse-n2", "neoverse-v2"):
        neon, scalable = MACHINES[name], MACHINES[f"{name}+sve"]
        assert neon.isa == "neon"
        assert (neon.lanes, neon.vector_bytes) == (scalable.lanes, scalable.vector_bytes) == (4, 16)
        # two units of Neoverse V1 make one vector of 256 bits: no peak is gained
        peak = scalable.segments * scalable.vector.rate
        assert peak == 1
        assert neon.rates == scalable.rates
    assert MACHINES["ftengine"].segments * MACHINES["ftengine"].vector.rate == 2


@each_record
def test_models_ask_for_scalable_vectors(machine: Machine, pytestconfig: pytest.Config) -> None:
    assert Target(machine.tvm_target()).attrs["mcpu"] == machine.mcpu
    needed = required_features(machine)
    assert {"asimd", "sve"} <= set(needed)
    text = (pytestconfig.rootpath / "tvmconv/runtime/c/features.c").read_text()
    assert set(needed) <= set(re.findall(r'"(\w+)"', text.split("__aarch64__", 1)[1]))


@pytest.mark.parametrize(
    ("target", "name", "bits"),
    [
        (f"{GNU} -mattr=+sve", "aarch64+sve", 256),
        (f"{GNU} -mcpu=neoverse-v1 -mattr=+sve", "neoverse-v1+sve", 256),
        (f"{GNU} -mcpu=cortex-x2 -mattr=+sve", "cortex-x2+sve", 256),
        (f"{GNU} -mcpu=neoverse-v1", "neoverse-v1", 128),
        (f"{GNU} -mcpu=a64fx", "a64fx", 512),
    ],
)
def test_strings(target: str, name: str, bits: int) -> None:
    machine = resolve_machine(target, 1)
    assert (machine.name, machine.vector.bits) == (name, bits)


def test_a64fx_shares_each_value_that_it_spreads() -> None:
    """One block of outputs would make 3.2 instructions for each FMA."""
    workload = Conv2dWorkload.parse("ic512ih7oc2048kh1")
    assert TileModel(workload, A64FX.with_cores(1)).best_tile()[0] >= 2


@pytest.mark.parametrize(
    ("bits", "mcpu", "name"),
    [
        (128, None, "aarch64"),
        (256, None, "aarch64+sve"),
        (256, "neoverse-v1", "neoverse-v1"),
        (512, "a64fx", "a64fx"),
        (1024, None, "aarch64+sve"),
    ],
)
def test_native_takes_scalable_vectors_where_they_are_longer(
    bits: int, mcpu: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_cpu_flags", lambda: SVE_FLAGS)
    monkeypatch.setattr(host, "host_vector_bits", lambda: bits)
    monkeypatch.setattr(host, "_host_caches", dict)
    found = native_machine(mcpu)
    assert replace(found.with_cores(1), name=name) == MACHINES[name]


def test_code_of_one_length_is_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_cpu_flags", lambda: frozenset(required_features(A64FX)))
    monkeypatch.setattr(gate, "host_vector_bits", lambda: 256)
    assert lacks(A64FX) == ("512-bit SVE",)
    assert A64FX.exact_vector_bits == 512
    with pytest.raises(ArtifactError, match=r"needs scalable vectors of 512 bits; .* has 256"):
        ensure_machine(A64FX, "net.so")
    monkeypatch.setattr(gate, "host_vector_bits", lambda: 512)
    ensure_machine(A64FX, "net.so")
    assert MACHINES["aarch64+sve"].exact_vector_bits == 0
