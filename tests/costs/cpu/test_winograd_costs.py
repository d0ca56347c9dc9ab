"""Costs of Winograd convolution: waiting FMAs, omitted products, and their weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvmconv.algorithms.winograd.tiles import Tiling
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.cpu.winograd_traffic import AHEAD, busiest, gap_cycles
from tvmconv.machines.x86 import MACHINES, as_processor
from tvmconv.measuring.suites import parse_layer

AVX2 = MACHINES["x86-64-v3"]


def _workload(name: str) -> Conv2dWorkload:
    return parse_layer(name).workload


@pytest.mark.parametrize(("rows", "cycles"), [(2, 4.0), (3, 4.27), (4, 4.55), (5, 5.27), (6, 6.0)])
def test_fmas_wait_near_their_latency(rows: int, cycles: float) -> None:
    """Measured on Zen 5: 4.0, 4.3, 4.55, 5.2 and 6.0."""
    assert Microkernel(AVX2, rows, 2).step_cycles() == pytest.approx(cycles, abs=0.02)


def test_fmas_of_a_single_unit_wait_for_their_latency_alone() -> None:
    zen4 = as_processor(MACHINES["x86-64-v4"], "znver4")
    assert Microkernel(zen4, 2, 2).step_cycles() == 4
    assert Microkernel(replace(zen4, fma_units=2), 2, 2).step_cycles() > 4


@pytest.mark.parametrize(("mh", "mw", "share"), [(2, 2, 32 / 25), (2, 3, 40 / 35), (3, 2, 44 / 35)])
def test_first_of_two_threads_has_fewer_omitted_products(mh: int, mw: int, share: float) -> None:
    two = replace(AVX2, cores=2)
    strided = _workload("ic128ih28oc256kh3sh2ph1")
    assert busiest(strided, two, Tiling(strided, mh, mw), 2) == pytest.approx(share)
    assert busiest(strided, AVX2, Tiling(strided, mh, mw), 2) == 1


def test_threads_share_products_of_stride_1_equally() -> None:
    dense = _workload("ic128ih28oc256kh3ph1")
    assert busiest(dense, replace(AVX2, cores=2), Tiling(dense, 4, 4), 2) == 1


def test_omitted_weights_leave_gaps_in_the_stream() -> None:
    """F(3x4) of phases of two taps has 4x5 products: 3 of them with two gaps, 5 with one."""
    strided, dense = (_workload(f"ic256ih14oc512kh3{stride}ph1") for stride in ("sh2", ""))
    waited = gap_cycles(strided, AVX2, Tiling(strided, 3, 4), 2)
    one = gap_cycles(strided, replace(AVX2, l1d_bytes=1), Tiling(strided, 3, 4), 1)
    panels = 512 // AVX2.channel_block // 2
    rate = AHEAD * (6 + 5) * panels / waited
    assert 0 < rate < AVX2.rates.memory
    # with one block a phase has 8 KiB, which is less than the distance of prefetches
    assert one / waited == pytest.approx(2 * 8192 / AHEAD)
    assert gap_cycles(dense, AVX2, Tiling(dense, 3, 4), 2) == 0
