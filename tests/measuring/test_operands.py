"""Seeded operands in the types of a layer."""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.core.datatypes import DataTypes
from tvmconv.core.stored_types import numpy_type
from tvmconv.measuring.operands import rounded


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_values_are_rounded_to_the_nearest_of_a_type(dtype, bits):
    values = np.random.default_rng(0).uniform(1, 2, 1000).astype(np.float32)
    found = rounded(values, dtype)
    exact = np.round(values.astype(np.float64) * 2 ** (bits - 1)) / 2 ** (bits - 1)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, exact)
    assert numpy_type(dtype).itemsize == (4 if dtype == "float32" else 2)


@pytest.mark.parametrize("output", ["float32", "float16", "bfloat16"])
def test_the_rounding_of_an_output_is_bounded(output):
    types = DataTypes(output=output)
    values = np.random.default_rng(0).uniform(1, 2, 1000).astype(np.float32)
    errors = np.abs(rounded(values, output) - values) / values
    assert errors.max() <= types.rounding
    assert types.rounding < 2.2 * errors.max() or not types.rounding
