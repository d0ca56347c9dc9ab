"""The cost of products of all taps, and the layers that have them."""

from __future__ import annotations

from math import inf

import pytest

from tests.kernels import V3, V4, each_target
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.pixel_conv import outdoes, tap_product_cycles


@pytest.mark.parametrize("problem", ["ic64ih20oc3kh1", "ic64ih20oc3kh3sh2ph1"])
def test_single_taps_and_strides_have_no_products_of_taps(problem: str) -> None:
    assert tap_product_cycles(Conv2dWorkload.parse(problem), V4) == inf


@each_target
def test_products_of_taps_cost_at_least_their_fmas(machine) -> None:
    workload = Conv2dWorkload.parse("ic64ih20oc3kh3ph1")
    products = 3 * 9 * 64 * 20 * 20
    peak = machine.lanes * machine.fma_units
    cycles = tap_product_cycles(workload, machine)
    assert products / peak < cycles < 4 * products / peak
    assert tap_product_cycles(workload, machine.with_cores(2)) == cycles / 2


def test_products_that_leave_the_caches_cost_their_moves() -> None:
    near, far = (Conv2dWorkload.parse(f"ic16ih{n}oc3kh3ph1") for n in (40, 1600))
    pixels = (1600 / 40) ** 2
    assert tap_product_cycles(far, V3) > 1.1 * pixels * tap_product_cycles(near, V3)


def test_products_of_taps_alone_need_a_margin() -> None:
    assert outdoes(90, 100, only_taps=False) and not outdoes(90, 100, only_taps=True)
