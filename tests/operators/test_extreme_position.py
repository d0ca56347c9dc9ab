from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, each_machine, run
from tvmconv.operators.extreme_position import TYPES, extreme_position

# within a block, blocks and an overlapping one
SHAPES = [(3, 70), (2, 512), (2, 700)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("largest", [True, False])
@each_machine
def test_first_of_equal_elements(shape, largest, machine):
    x = np.random.default_rng(0).integers(0, 99, shape).astype("float32")
    found = run(lambda t: extreme_position(t, largest, machine.vector_bytes), x, machine=machine)
    expected = x.argmax(1) if largest else x.argmin(1)
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype):
    low, high = (-np.inf, np.inf) if dtype[0] == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.full((4, 70), low, dtype)
    x[1, 69], x[2], x[3, 5:] = high, high, 3
    found = run(lambda t: extreme_position(t, True, HOST.vector_bytes), x, machine=HOST)
    np.testing.assert_array_equal(found, x.argmax(1))


def test_not_a_number_is_never_found():
    x = np.full((2, 300), np.nan, np.float32)
    x[1, 7:290:3] = -np.arange(95)
    found = run(lambda t: extreme_position(t, True, HOST.vector_bytes), x, machine=HOST)
    np.testing.assert_array_equal(found, [0, 7])
