from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.kernels import alternating_machines
from tests.operators.harness import (
    HOST,
    MACHINES,
    Built,
    at_the_end_of_memory,
    each_machine,
    run,
)
from tvmconv.operators.extreme_columns import column_lanes, extreme_columns
from tvmconv.operators.extreme_position import TYPES


def positions(x: np.ndarray, largest: bool, machine=HOST) -> np.ndarray:
    outer, size, columns = x.shape
    rows = x.reshape(outer, size * columns)
    bytes_ = machine.vector_bytes
    return run(lambda t: extreme_columns(t, columns, largest, bytes_), rows, machine=machine)


# less than a vector, whole ones, groups of several, an overlapping one; several chains and a rest
SHAPES = [(3, 4, 4), (3, 35, 9), (2, 9, 5), (2, 19, 16), (2, 2, 17), (1, 9, 40), (2, 5, 133)]


@pytest.mark.parametrize("largest", [True, False])
@alternating_machines("shape", SHAPES, MACHINES)
def test_first_of_equal_elements(shape, largest, machine):
    x = np.random.default_rng(0).integers(0, 9, shape).astype("float32")
    expected = x.argmax(1) if largest else x.argmin(1)
    np.testing.assert_array_equal(positions(x, largest, machine), expected, strict=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype):
    low, high = (-np.inf, np.inf) if dtype[0] == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.full((2, 18, 5), low, dtype)
    x[1, 17, 0], x[1, 2:, 1], x[1, 4:9, 2], x[1, ::5, 3] = high, high, 3, 7
    np.testing.assert_array_equal(positions(x, True), x.argmax(1))
    np.testing.assert_array_equal(positions(x, False), x.argmin(1))


@each_machine
def test_not_a_number_is_never_found(machine):
    columns = column_lanes("float32", machine.vector_bytes) + 1
    x = np.full((1, 40, columns), np.nan, np.float32)
    x[0, 7:30:3, 1:] = -np.arange(8)[:, None]
    expected = [[0, *[7] * (columns - 1)]]
    np.testing.assert_array_equal(positions(x, True, machine), expected)


@pytest.mark.parametrize("columns,dtype", [(4, "float32"), (5, "int8"), (12, "float32")])
def test_nothing_after_the_last_row_is_read(columns, dtype):
    x = (np.arange(64 * columns) % 23).astype(dtype).reshape(1, -1)
    built = Built(lambda t: extreme_columns(t, columns, True, HOST.vector_bytes), [x], HOST)
    built.inputs = [tvm.runtime.from_dlpack(at_the_end_of_memory(x))]
    np.testing.assert_array_equal(built()[0], x.reshape(1, 64, columns).argmax(1))
