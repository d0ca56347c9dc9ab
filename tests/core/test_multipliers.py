"""Scales as multipliers and shifts: how near they come, and which have none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.kernels.multipliers import FixedNumbers, fixed_numbers

QUANTISE, ADD = EpilogueOp("quantise"), EpilogueOp("add")
LAST = (0.0, -100, 155, 100)


def made(*steps: EpilogueOp, scale: object = 0.01, largest: float = 1e4, rows=(LAST,)):
    scales = np.atleast_1d(np.asarray(scale, np.float64))
    most = np.full(len(scales), largest)
    return fixed_numbers(steps, scales, np.array(rows, np.float64), most)


def test_multipliers_have_30_bits_or_more():
    scales = [0.2499999, 0.25 - 2**-40, 0.125, 0.1, 1e-3, np.nextafter(2**-7, 0), 3e-8, 2.4e-10]
    found = made(scale=scales[:1] + scales[2:])
    assert isinstance(found, FixedNumbers)
    multiplier, right, left = found.scale
    assert (multiplier >= 2**30).all() and not left.any()
    assert ((right >= 1) & (right <= 31)).all()
    for m, s, scale in zip(multiplier, right, scales[:1] + scales[2:], strict=True):
        error = abs(Fraction(int(m), 2 ** (32 + int(s))) - Fraction(scale))
        assert error <= Fraction(scale) * Fraction(1, 2**31)


def test_scales_below_all_sums_round_to_zero():
    found = made(scale=[1e-12, 1e-30])
    assert isinstance(found, FixedNumbers)
    for multiplier, right, _ in found.scale.T.tolist():
        assert (2**31 * multiplier + (1 << (31 + right))) >> (32 + right) == 0


@pytest.mark.parametrize("scale", [0.25, 0.25 * (1 - 2**-33), 3.0])
def test_large_scales_have_none(scale: float):
    assert made(scale=scale) == "a scale of its sums is a quarter or more, or lets them reach 2**27"


def test_terms_have_the_bits_that_32_hold():
    rows = [(0, -100, 155, 0.031), (7, 0.017, 0, 0), (1 / 0.043, -90, 165, 90)]
    found = made(QUANTISE, ADD, rows=rows)
    assert isinstance(found, FixedNumbers)
    first, add, last = found.numbers.reshape(-1, 4).tolist()
    bits = last[0]
    assert first == [0, -100, 155, round(0.031 / 0.043 * 2**bits)]
    assert add == [7, round(0.017 / 0.043 * 2**bits), 0, 0]
    assert last == [bits, -90, 165, 90]
    assert 255 * (first[3] + add[1]) + 2 ** (bits - 1) < 2**31
    assert bits > 20


def test_terms_of_too_different_scales_have_none():
    rows = [(0, -100, 155, 0.031), (7, 5e4, 0, 0), (1 / 0.043, -90, 165, 90)]
    assert made(QUANTISE, ADD, rows=rows) == "its terms have too different scales"


def test_sums_that_meet_a_residual_keep_bits_after_the_point():
    rows = [(7, 0.017, 0, 0), (1 / 0.043, -90, 165, 90)]
    found = made(ADD, scale=[1e-4, 3e-5], largest=1e6, rows=rows)
    assert isinstance(found, FixedNumbers)
    bits = int(found.numbers[4])
    assert bits >= 8
    for (m, s, left), scale in zip(found.scale.T.tolist(), [1e-4, 3e-5], strict=True):
        assert m >= 2**30 and 1e6 * 2**left < 2**31
        assert m * 2.0 ** (left - 32 - s) == pytest.approx(scale / 0.043 * 2**bits, rel=1e-9)
