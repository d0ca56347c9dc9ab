from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from tests.kernels import alternating_machines
from tests.operators.harness import MACHINES, Built, normal
from tvmconv.tir.general.lane_choices import LaneChoices


def padded(x, before, after, value):
    def element(*i):
        inside = [tirx.all(k >= b, k < b + n) for k, b, n in zip(i, before, x.shape, strict=True)]
        place = [k - b for k, b in zip(i, before, strict=True)]
        return tirx.if_then_else(tirx.all(*inside), x[tuple(place)], tirx.const(value, x.dtype))

    shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
    return te.compute(shape, element)


# rows of few and of many vectors, several axes of a row, single elements, rows that remain
PADS = [
    ((37, 3), (0, 1), (0, 1)),
    ((37, 1), (1, 0), (0, 3)),
    ((19, 2, 5), (0, 1, 0), (0, 1, 2)),
    ((70, 3, 3), (2, 1, 1), (1, 1, 1)),
    ((33, 7), (0, 4), (1, 0)),
    ((5, 9, 4), (0, 0, 2), (0, 3, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@alternating_machines("pad", PADS, MACHINES)
def test_padded_rows(pad, dtype, machine):
    shape, before, after = pad
    x = (normal(*shape) * 9).astype(dtype)
    built = Built(lambda t: padded(t, before, after, 7), [x], machine)
    sides = list(zip(before, after, strict=True))
    np.testing.assert_array_equal(built()[0], np.pad(x, sides, constant_values=7), strict=True)


@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (8, 4), (7, 6)])
def test_joined_rows_with_other_work(sizes):
    parts = [normal(37, size, seed=size) for size in sizes]

    def joined(a, b):
        first = int(a.shape[1])
        shape = (37, first + int(b.shape[1]))
        return te.compute(
            shape, lambda i, j: 2.0 * tirx.if_then_else(j < first, a[i, j], b[i, j - first])
        )

    for machine in MACHINES[:1]:
        found = Built(joined, parts, machine)()[0]
        np.testing.assert_array_equal(found, 2 * np.concatenate(parts, 1))


def test_choices_by_other_axes_or_of_sums_stay():
    x = tirx.decl_buffer((4, 3), "float32", "x")
    i, j = (tirx.IterVar((0, 4), name, 0).var for name in "ij")
    for value in (
        tirx.if_then_else(i < 2, x[i, j], 0.0),
        tirx.if_then_else(j < 2, x[i, j] + 1.0, 0.0),
    ):
        choices = LaneChoices(value, [(j, 3)])
        assert not choices.leaves
        assert choices.value.same_as(value)
    (leaves,) = LaneChoices(tirx.if_then_else(j < 2, x[i, j], 0.0), [(j, 3)]).leaves.values()
    assert [chosen for _, chosen in leaves] == [[True, True, False], [False, False, True]]
