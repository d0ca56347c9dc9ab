"""Winograd's matrices compute a correlation exactly, for every tile that the points allow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiles import F4_FILTER, F4_INPUT, F4_OUTPUT
from tvmconv.algorithms.winograd.matrices import (
    MOST_PRODUCTS,
    Transforms,
    interpolation,
    points_of,
    transforms,
)

SIZES = [(m, r) for r in range(1, MOST_PRODUCTS) for m in range(1, MOST_PRODUCTS - r + 2)]
each_size = pytest.mark.parametrize("m, r", SIZES)


def coefficient(t: Transforms, i: int, k: int, j: int) -> Fraction:
    """The factor of kernel element k and input j in output i, without the scale."""
    return sum((t.at[i][p] * t.g[p][k] * t.bt[p][j] for p in range(t.n)), Fraction(0))


@each_size
def test_the_identity_holds_in_rational_arithmetic(m, r):
    t = transforms(m, r)
    assert t.n == m + r - 1
    for i in range(m):
        for k in range(r):
            for j in range(t.n):
                assert coefficient(t, i, k, j) == (j == i + k)


@each_size
def test_the_irrational_scale_cancels(m, r):
    """Every product of three entries carries the scale's power i + k - j: none where it counts."""
    t = transforms(m, r)
    for p in range(t.n):
        for i in range(m):
            for k in range(r):
                for j in range(t.n):
                    if t.at[i][p] * t.g[p][k] * t.bt[p][j] != 0:
                        power = t.at_power(i, p) + t.g_power(p, k) + t.bt_power(p, j)
                        assert power == i + k - j


@given(
    size=st.sampled_from(SIZES),
    data=st.lists(st.integers(-99, 99), min_size=MOST_PRODUCTS, max_size=MOST_PRODUCTS),
    taps=st.lists(st.integers(-99, 99), min_size=MOST_PRODUCTS, max_size=MOST_PRODUCTS),
)
def test_the_matrices_correlate(size, data, taps):
    t = transforms(*size)
    values, filters = np.array(data[: t.n], float), np.array(taps[: t.r], float)
    found = t.output_matrix() @ ((t.filter_matrix() @ filters) * (t.input_matrix() @ values))
    expected = np.correlate(values, filters)
    assert np.allclose(found, expected, rtol=0, atol=1e-9)


def test_f4_3_has_the_matrices_of_the_paper():
    """The scale moves the points, and columns take factors, afterwards."""
    t = interpolation(4, 3, points_of(6)[0])
    assert [list(row) for row in t.at] == F4_OUTPUT
    assert [list(row) for row in t.g] == F4_FILTER
    assert [list(row) for row in t.bt] == F4_INPUT


@each_size
def test_opposite_points_share_their_even_and_odd_parts(m, r):
    t = transforms(m, r)
    for p, q in t.pairs:
        for j in range(t.n):
            assert abs(t.bt[p][j]) == abs(t.bt[q][j])
        for i in range(m):
            assert t.at[i][p] == (-1) ** i * t.at[i][q]


@each_size
def test_float_entries_are_the_rational_ones_times_the_scale(m, r):
    t = transforms(m, r)
    scale = float(t.scale_squared) ** 0.5
    for matrix, exact, power in [
        (t.output_matrix(), t.at, t.at_power),
        (t.filter_matrix(), t.g, t.g_power),
        (t.input_matrix(), t.bt, t.bt_power),
    ]:
        for (row, column), value in np.ndenumerate(matrix):
            expected = float(exact[row][column]) * scale ** power(row, column)
            assert value == pytest.approx(expected, rel=1e-15)
            assert (value == 0) == (exact[row][column] == 0)
