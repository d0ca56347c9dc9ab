"""The one option of LLVM that targets differ in reaches no code of another one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import pytest
from tvm import te

from tests.assembly import assembly
from tests.kernels import V3
from tvmconv.kernels.rules import schedule_function
from tvmconv.machines import llvm_options as module
from tvmconv.machines.arm import MACHINES as NEON
from tvmconv.machines.llvm_options import llvm_options
from tvmconv.machines.record import Machine
from tvmconv.machines.sve import MACHINES
from tvmconv.operators.lrn import lrn_blocked
from tvmconv.tir.pipeline import compile_function

FIXED, SCALABLE = MACHINES["a64fx"], MACHINES["aarch64+sve"]


def compiled(machine: Machine, path: Path) -> str:
    """Assembly of a function for which LLVM takes vectors that are as long as it may assume."""
    x = te.placeholder((1, 3, 2, 3, machine.channel_block), name="x")
    y = lrn_blocked(x, 2 * machine.channel_block + 2, 3, 0.1, 0.75, 1.0)
    code = compile_function(schedule_function(te.create_prim_func([x, y]), machine), machine)
    code.write_object(path)
    return assembly(code).text


def test_code_of_a_fixed_length_changes_no_other_code(tmp_path: Path) -> None:
    """Code for any length was once that for 512 bits after a build for A64FX by two threads."""
    before = [compiled(machine, tmp_path / "x.o") for machine in (FIXED, SCALABLE)]
    machines = [FIXED, FIXED, SCALABLE] * 4
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(compiled, m, tmp_path / f"{i}.o") for i, m in enumerate(machines)]
    for machine, job in zip(machines, jobs, strict=True):
        same = job.result() == before[machine is SCALABLE]
        assert same, machine.name
    same = compiled(SCALABLE, tmp_path / "x.o") == before[1]
    assert same, "the option stays set"
    # the option makes a difference here, or nothing would be shown
    assert "vl16" in before[0]


@pytest.mark.parametrize(
    ("inside", "other", "together"),
    [
        (FIXED, FIXED, False),
        (FIXED, SCALABLE, False),
        (SCALABLE, FIXED, False),
        (SCALABLE, SCALABLE, True),
        (FIXED, V3, True),
        (FIXED, NEON["neoverse-v1"], True),
    ],
)
def test_who_waits_for_whom(inside: Machine, other: Machine, together: bool) -> None:
    entered = Event()

    def enter() -> None:
        with llvm_options(other):
            entered.set()

    with ThreadPoolExecutor(1) as pool:
        with llvm_options(inside):
            job = pool.submit(enter)
            # a wrong answer to the second is not waited for long; never red by chance
            assert entered.wait(30 if together else 0.05) == together
        wait([job])
    assert entered.is_set() and not module._compiling


def test_an_error_lets_the_next_in() -> None:
    for machine in (FIXED, SCALABLE):
        with pytest.raises(ZeroDivisionError), llvm_options(machine):
            raise ZeroDivisionError
    with llvm_options(FIXED):
        assert module._compiling == [FIXED]
    assert not module._compiling
