"""The probes: the generated loops' code, and that they measure a core's rates."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm

from tests.assembly import assembly, matching
from tvmconv.core.errors import TargetError
from tvmconv.lab.bench.dot_peak import dword_steps
from tvmconv.machines import probe_kernels
from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.host import host_features, native_machine
from tvmconv.machines.probe import CHAINS, measure, of_ports
from tvmconv.machines.x86 import MACHINES

NATIVE = native_machine() if host_features() >= set(MACHINES["x86-64-v3"].features) else None
native = pytest.mark.skipif(NATIVE is None, reason="this processor has no AVX2")


def innermost_loops(code: GuardedCode, mnemonic: str) -> list[list[str]]:
    """Instructions of every innermost loop that holds an instruction, the shortest loop first."""
    bodies = [
        [line.split("#")[0].strip() for line in body if not line.startswith((".", "#"))]
        for body in assembly(code).loops()
    ]
    return sorted((body for body in bodies if matching(mnemonic, body)), key=len)


@pytest.mark.parametrize(("name", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_the_loop_holds_multiply_adds_and_a_counter_only(name: str, register: str) -> None:
    loop = innermost_loops(probe_kernels.multiply_adds(MACHINES[name], 1, CHAINS, 100), "vfmadd")[0]
    fma = [text for text in loop if text.startswith("vfmadd")]
    assert all(text.count(f"%{register}") == 3 for text in fma)
    accumulators = {text.rpartition("%")[2] for text in fma}
    assert len(accumulators) >= MACHINES[name].minimum_accumulators
    others = [text.split()[0] for text in loop if text not in fma]
    assert len(others) == 2, others
    assert re.match(r"(add|sub|dec|inc)", others[0])
    assert others[1].startswith("j")


def loop_of(code: GuardedCode, mnemonic: str) -> list[str]:
    """The instructions of the innermost loop that holds an instruction most often."""
    loops = innermost_loops(code, mnemonic)
    return max(loops, key=lambda loop: sum(text.startswith(mnemonic) for text in loop))


@pytest.mark.parametrize("name", MACHINES)
def test_every_vector_of_the_stream_is_loaded_once(name: str) -> None:
    loop = loop_of(probe_kernels.reads(MACHINES[name], 1, 8, 64, 2), "vpaddd")
    adds = [text for text in loop if text.startswith("vpaddd")]
    assert len(adds) >= 8
    assert all("(" in text for text in adds), loop
    assert len(loop) - len(adds) <= 3, loop


@pytest.mark.parametrize("name", MACHINES)
def test_every_value_is_spread_over_a_vector(name: str) -> None:
    loop = loop_of(probe_kernels.broadcasts(MACHINES[name], CHAINS, 64, 2), "vpaddd")
    spread = [text for text in loop if "vpbroadcastd" in text or "{1to16}" in text]
    assert len(spread) == sum(text.startswith("vpaddd") for text in loop) >= CHAINS


@pytest.mark.parametrize("name", MACHINES)
def test_the_counting_chain_is_one_chain(name: str) -> None:
    module, cycles = probe_kernels.cycle_counter(MACHINES[name], 1000)
    loop = loop_of(module, "xorl")
    links = [text.split()[0] for text in loop if re.match(r"(xorl|addl)\s+%", text)]
    assert cycles == 1000 * len(links)
    assert links == ["xorl", "addl"] * (len(links) // 2)


@native
def test_the_counting_chain_computes_what_it_says() -> None:
    assert NATIVE is not None
    module, cycles = probe_kernels.cycle_counter(NATIVE, 3)
    out = tvm.runtime.empty((1,), "int32")
    module["main"](tvm.runtime.tensor(np.array([0x5A, 7], "int32")), out)
    value = 0
    for _ in range(cycles // 2):
        value = (value ^ 0x5A) + 7
    assert out.numpy()[0] == value


@native
def test_streams_and_broadcasts_sum_what_they_read() -> None:
    assert NATIVE is not None
    lanes = NATIVE.lanes
    data = np.arange(2 * 8 * lanes, dtype="int32").reshape(1, 2, 8 * lanes)
    out = tvm.runtime.empty((1, 8 * lanes), "int32")
    probe_kernels.reads(NATIVE, 1, 8, 2, 3)["main"](tvm.runtime.tensor(data), out)
    np.testing.assert_array_equal(out.numpy()[0], 3 * data[0].sum(0))
    values = np.arange(2 * CHAINS, dtype="int32").reshape(2, CHAINS)
    start = np.arange(CHAINS * lanes, dtype="int32").reshape(CHAINS, lanes)
    out = tvm.runtime.empty((CHAINS, lanes), "int32")
    arguments = (tvm.runtime.tensor(values), tvm.runtime.tensor(start), out)
    probe_kernels.broadcasts(NATIVE, CHAINS, 2, 3)["main"](*arguments)
    np.testing.assert_array_equal(out.numpy(), start + 3 * values.sum(0)[:, None])


@native
def test_measured_rates_are_those_of_a_core() -> None:
    assert NATIVE is not None
    told: list[str] = []
    found = measure(NATIVE, told.append, lambda: dword_steps(NATIVE))
    machine, rates = found.machine, found.machine.rates
    assert told == ["multiply_adds", "words", "broadcasts", "l1", "l2", "l3", "memory"]
    assert rates.words > 0
    assert rates.origin.startswith("measured 20")
    assert found.hertz > 0
    assert (rates.l3 > 0) == (NATIVE.l3_bytes > 0)
    assert min(rates.multiply_adds, rates.broadcasts, rates.l1, rates.l2, rates.memory) > 0
    assert machine.fma_units == max(1, round(rates.multiply_adds))
    assert machine.with_cores(1).l2_bytes == NATIVE.l2_bytes
    assert machine.code == NATIVE.code


@pytest.mark.parametrize(
    ("rate", "ports"),
    [(1.985, 2.0), (2.004, 2.0), (0.98, 1.0), (2.93, 3.0), (1.5, 1.5), (0.5, 0.5), (1.9, 1.9)],
)
def test_ports_are_whole_numbers_unless_they_are_not(rate: float, ports: float) -> None:
    assert of_ports(rate) == ports


def test_a_processor_that_is_not_here_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvmconv.machines.probe.host_features", lambda: frozenset({"avx2"}))
    with pytest.raises(TargetError, match=r"cannot measure x86-64-v4 on this host: .*avx512f"):
        measure(MACHINES["x86-64-v4"])
