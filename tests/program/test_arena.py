"""The arena's plan: no overlaps, and little above what any plan needs."""

from __future__ import annotations

import random
from itertools import combinations
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv.program.arena import ArenaPlan, Life, _Trials, largest_sum, plan

ALIGNMENT = 64


Buffers = list[list[Life]]


@st.composite
def lives(draw: st.DrawFn, most_parts: int = 1) -> Buffers:
    found = []
    for _ in range(draw(st.integers(0, 40))):
        size = draw(st.one_of(st.integers(0, 300), st.integers(0, 1 << 40)))
        units = draw(st.lists(st.integers(1, 1 << 20), max_size=most_parts - 1))
        parts = []
        for each in [*(ALIGNMENT * unit for unit in units), size]:
            first = draw(st.integers(0, 40))
            parts.append(Life(each, first, first + draw(st.integers(0, 12))))
        found.append(parts)
    return found


def whole(buffers: list[Life]) -> Buffers:
    return [[life] for life in buffers]


def check(buffers: Buffers, found: ArenaPlan) -> None:
    assert len(found.offsets) == len(buffers)
    assert all(offset >= 0 and offset % ALIGNMENT == 0 for offset in found.offsets)
    placed = []
    for offset, parts in zip(found.offsets, buffers, strict=True):
        for life in parts:
            placed += [(offset, life)] if life.bytes else []
            offset += life.bytes
    for (a, left), (b, right) in combinations(placed, 2):
        if left.first <= right.last and right.first <= left.last:
            assert a + left.bytes <= b or b + right.bytes <= a
    ends = [offset + part.bytes for offset, part in placed]
    times = {part.first for _, part in placed}
    most = max(
        (sum(p.bytes for _, p in placed if p.first <= t <= p.last) for t in times), default=0
    )
    assert found.bytes == max(ends, default=0) >= found.bound == most


@given(lives())
def test_no_two_buffers_overlap_that_live_at_a_time(buffers):
    check(buffers, plan(buffers, ALIGNMENT))


@given(lives(most_parts=4))
def test_no_two_parts_overlap_that_live_at_a_time(buffers):
    with patch("tvmconv.program.arena._WORK", 20_000):
        check(buffers, plan(buffers, ALIGNMENT))


@given(lives())
def test_the_same_buffers_get_the_same_plan(buffers):
    assert plan(buffers, ALIGNMENT) == plan(buffers, ALIGNMENT)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
def test_chains_take_what_they_need(sizes):
    """The larger sum of a layer's operand and result; a first fit needs up to half more."""
    buffers = [Life(ALIGNMENT * size, time, time + 1) for time, size in enumerate(sizes)]
    found = plan(whole(buffers), ALIGNMENT)
    assert found.bytes == found.bound


@pytest.mark.parametrize("seed", range(30))
def test_residual_chains_stay_within_a_twentieth(seed):
    chance = random.Random(seed)
    buffers = [
        Life(ALIGNMENT * chance.randint(1, 1000), time, time + chance.choice([1, 1, 1, 2, 3, 4]))
        for time in range(40)
    ]
    found = plan(whole(buffers), ALIGNMENT)
    check(whole(buffers), found)
    assert found.bytes <= 1.05 * found.bound


def test_plans_of_thousands_of_buffers():
    """Chains, skips over the whole network, and outputs of one size that live to the end."""
    many = 3000
    chain = [Life(4096 + ALIGNMENT * (i % 7), i, i + 1) for i in range(many)]
    nested = [Life(ALIGNMENT * (1 + i % 5), i, many - i) for i in range(0, many // 2, 20)]
    found = plan(whole(chain + nested), ALIGNMENT)
    assert found.bytes <= 1.05 * found.bound
    kept = [Life(128, i, many) for i in range(500)]
    assert plan(whole(kept), ALIGNMENT).bytes == 500 * 128


def test_a_result_and_the_operands_of_one_call_live_at_a_time():
    assert largest_sum([Life(10, 0, 1), Life(20, 1, 2), Life(30, 2, 2)]) == 50


def test_other_buffers_use_parts_that_are_not_alive():
    """A skip tensor is the first part of a concatenation, which is complete at call 4."""
    skip, late = Life(ALIGNMENT, 0, 4), Life(2 * ALIGNMENT, 3, 4)
    found = plan(
        [[skip, late], [Life(2 * ALIGNMENT, 0, 1)], [Life(2 * ALIGNMENT, 1, 2)]], ALIGNMENT
    )
    assert found.bytes == found.bound == 5 * ALIGNMENT


def test_memory_that_was_used_last_is_used_again():
    """The last buffer fits where the second or the third lay; calls 2 and 3 were their last."""
    used = [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]
    found = plan(whole([Life(ALIGNMENT, *calls) for calls in used]), ALIGNMENT)
    assert found.bytes == found.bound == 3 * ALIGNMENT
    assert found.offsets[4] == found.offsets[2] != found.offsets[1]


@given(lives())
def test_reuse_costs_no_memory(buffers):
    placed = [parts for parts in buffers if any(life.bytes for life in parts)]
    trials = _Trials(placed, ALIGNMENT)
    tallest = trials.best()
    moved = trials.warmed(tallest)
    ends = [offset + size for offset, size in zip(moved, trials.sizes, strict=True)]
    assert max(ends, default=0) <= trials._height(tallest)
