"""Costs of Winograd convolution: waiting FMAs, omitted products, and their weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvmconv.algorithms.winograd.tiles import Tiling, busiest, product_step
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.cpu.winograd_traffic import AHEAD, busiest_share, gap_cycles
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


@pytest.mark.parametrize(("mh", "mw", "consecutive"), [(2, 2, 32 / 25), (2, 3, 40 / 35)])
def test_two_threads_have_the_same_products_of_a_strided_kernel(
    mh: int, mw: int, consecutive: float
) -> None:
    strided = _workload("ic128ih28oc256kh3sh2ph1")
    tiles, staged = Tiling(strided, mh, mw), Config.of(mh=mh, mw=mw, kr=2, fused=0)
    assert busiest(tiles.work, 2, 16) == pytest.approx(consecutive)
    assert busiest_share(replace(AVX2, cores=2), tiles, staged) < 1.03
    assert busiest_share(AVX2, tiles, staged) == 1


def test_products_keep_their_order_where_all_have_the_same_work() -> None:
    two = replace(AVX2, cores=2)
    dense, strided = (_workload(f"ic128ih28oc256kh3{stride}ph1") for stride in ("", "sh2"))
    staged, fused = (Config.of(mh=4, mw=4, kr=2, fused=flag) for flag in (0, 1))
    assert product_step(Tiling(dense, 4, 4), staged, two) == 1
    assert busiest_share(two, Tiling(dense, 4, 4), staged) == 1
    assert product_step(Tiling(strided, 4, 4), fused, two) == 1
    assert product_step(Tiling(strided, 4, 4), staged, AVX2) == 1


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
