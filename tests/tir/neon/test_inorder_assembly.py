"""Runs of sums as one piece of assembly, executed here by a register machine."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from tests.assembly import assembly as generated
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.tir.neon.inorder_assembly import Sum, assembly

_FMLA = re.compile(r"fmla \$(\d+)\.4s, \$(\d+)\.4s, \$(\d+)\.s\[(\d)\]")
_LOAD = re.compile(r"ldr (?:\$\{(\d+):d\}|\$(\d+)), \[\$(\d+), #(\d+)\]")
_INSERT = re.compile(r"ins \$(\d+)\.d\[1\], \$(\d+)")


def run(blocks: int, pixels: int, steps: int) -> tuple[list[Sum], list[tuple[int, int]]]:
    """The sums of a 1x1 kernel: weights at the first pointer, pixels at the second."""
    weights = [(0, 16 * i) for i in range(4 * steps * blocks)]
    data = [(1, 16 * i) for i in range(steps * pixels)]
    sums = [
        Sum(
            block * pixels + x,
            (4 * step + lane) * blocks + block,
            len(weights) + step * pixels + x,
            lane,
        )
        for step in range(steps)
        for lane in range(4)
        for x in range(pixels)
        for block in range(blocks)
    ]
    return sums, weights + data


def lines(text: str) -> list[str]:
    found = re.search(r'asm "([^"]*)"', text)
    assert found is not None
    return found[1].split("\\0A")


@pytest.mark.parametrize(
    ("blocks", "pixels"), [(2, 9), (3, 7), (1, 14), (2, 10), (4, 5), (2, 3), (1, 1)]
)
def test_sums_are_those_of_numpy(blocks: int, pixels: int) -> None:
    sums, places = run(blocks, pixels, 2)
    made = assembly(sums, places, 2)
    assert made is not None
    rng, totals = np.random.default_rng(0), blocks * pixels
    memory = [rng.standard_normal((len(places), 4)) for _ in range(2)]
    taken = made[1].count('"=&w') + made[1].count(",=&w")
    assert taken <= 32
    registers = {i: np.zeros(4) for i in range(totals)}
    for line in lines(made[1]):
        if found := _FMLA.match(line):
            total, factor, lanes, lane = map(int, found.groups())
            registers[total] = registers[total] + registers[factor] * registers[lanes][lane]
        elif found := _LOAD.match(line):
            place = int(found[4])
            values = memory[int(found[3]) - totals - 3 - (taken - totals)][place // 16]
            half = values[2 * (place % 16 // 8) :][:2]
            # the upper half is unknown until it is inserted
            lower = np.concatenate([half, [np.nan] * 2])
            registers[int(found[1] or found[2])] = lower if found[1] else half
        else:
            found = _INSERT.match(line)
            assert found is not None, line
            vector, word = map(int, found.groups())
            registers[vector] = np.concatenate([registers[vector][:2], registers[word]])
    expected = np.zeros((totals, 4))
    for each in sums:
        weight, pixel = (memory[p][at // 16] for p, at in (places[each.factor], places[each.lanes]))
        expected[each.total] += weight * pixel[each.lane]
    np.testing.assert_allclose([registers[i] for i in range(totals)], expected, rtol=1e-12)


def test_each_load_is_next_to_an_insertion_and_each_word_after_a_sum() -> None:
    sums, places = run(2, 9, 4)
    made = assembly(sums, places, 2)
    assert made is not None
    code = lines(made[1])
    pairs = list(pairwise(code))
    beside = sum(bool(re.match(r"ldr \$\{", a)) and b.startswith("ins") for a, b in pairs)
    behind = sum(a.startswith("fmla") and bool(re.match(r"ldr \$\d", b)) for a, b in pairs)
    assert beside >= len(places) - 4
    assert behind >= len(places) - 6


def test_more_sums_than_registers_are_left_to_others() -> None:
    sums, places = run(4, 8, 1)
    assert assembly(sums, places, 2) is None


def test_no_store_of_what_the_sums_read_is_after_them() -> None:
    """In a kernel without loops, whose panel is packed right before the sums."""
    layer = Conv2dWorkload.parse("ic24ih13iw1oc2kh1sh2+bias")
    kernel = make_kernel(layer, MACHINES["cortex-a53"], "im2col")
    source = generated(kernel).text
    before, pieces, after = re.split(r"//APP|//NO_APP", source)
    assert pieces.count("fmla") == 24 * 7
    stored = [re.findall(r"\n\s*st[rp]\s+q.*\[sp", part) for part in (before, after)]
    assert stored[0]
    assert not stored[1]
