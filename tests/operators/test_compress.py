"""Compress against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, Built
from tvmconv.operators.compress import compressed


@pytest.mark.parametrize(
    ("shape", "most", "dtype"),
    [
        ((1, 300, 1), 300, "float32"),
        ((3, 20, 17), 20, "float16"),
        ((2, 9, 70), 5, "int64"),
        ((1, 40, 1000), 40, "float32"),
        ((2, 8, 3), 8, "bool"),
        ((2, 6, 130), 6, "uint8"),
    ],
)
def test_rows_that_are_chosen(shape: tuple[int, int, int], most: int, dtype: str) -> None:
    """Also none and all; integers after the last row stay in the range of the others."""
    generator = np.random.default_rng(0)
    x = generator.integers(1, 100, shape).astype(dtype)
    built = None
    for share in (0.5, 0.0, 1.0):
        condition = generator.random(most) < share
        built = built or Built(compressed, [x, condition], HOST)
        built.inputs[1].copyfrom(condition)
        rows, count = built()
        assert count.tolist() == [condition.sum()]
        wanted = np.compress(condition, x, 1)
        np.testing.assert_array_equal(rows[:, : count[0]], wanted)
        if dtype == "int64":
            assert rows.min() >= 1
