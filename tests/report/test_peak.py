"""The machine probes: what the generated loop holds, and that they measure something."""

from __future__ import annotations

import math
import re

import pytest

from tvmconv.machines.host import native_machine
from tvmconv.machines.x86 import MACHINES
from tvmconv.report.peak import fma_library, measure_peak


def fma_loops(assembly: str) -> list[list[str]]:
    """Instructions of every innermost loop that multiplies and adds."""
    loops: list[list[str]] = []
    body: dict[str, int] = {}
    instructions: list[str] = []
    for line in assembly.splitlines():
        text = line.split("#")[0].strip()
        if match := re.fullmatch(r"(\.LBB\w+):", text):
            body[match[1]] = len(instructions)
        elif text and not text.startswith(".") and not text.endswith(":"):
            instructions.append(text)
            jump = re.fullmatch(r"j\w+\s+(\.LBB\w+)", text)
            if jump and jump[1] in body:
                loop = instructions[body[jump[1]] :]
                if any(word.startswith("vfmadd") for word in loop):
                    loops.append(loop)
    return sorted(loops, key=len)


@pytest.mark.parametrize(("name", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_the_loop_holds_multiply_adds_and_a_counter_only(name, register):
    loop = fma_loops(fma_library(MACHINES[name], 1).inspect_source("s"))[0]
    fma = [text for text in loop if text.startswith("vfmadd")]
    assert all(text.count(f"%{register}") == 3 for text in fma)
    accumulators = {text.rpartition("%")[2] for text in fma}
    assert len(accumulators) >= MACHINES[name].minimum_accumulators
    others = [text.split()[0] for text in loop if text not in fma]
    assert len(others) == 2, others
    assert re.match(r"(add|sub|dec|inc)", others[0])
    assert others[1].startswith("j")


def test_measured_peak_is_a_rate():
    peak = measure_peak(native_machine(), threads=1, repeat=3)
    for value in (peak.gflops, peak.median_gflops, peak.read_gbs):
        assert math.isfinite(value)
        assert value > 0
    assert peak.median_gflops <= peak.gflops
    assert set(peak.to_json()) == {"threads", "gflops", "median_gflops", "read_gbs"}
