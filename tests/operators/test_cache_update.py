"""Caches of attention layers against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.kernels import alternating_machines
from tests.operators.harness import (
    MACHINES,
    Built,
    after_forbidden_page,
    at_the_end_of_memory,
    normal,
)
from tvmconv.operators.cache_update import cache_update


@pytest.mark.parametrize("placed", [at_the_end_of_memory, after_forbidden_page])
@alternating_machines("circular, inner", [(False, 64), (True, 48)], MACHINES)
def test_only_the_update_is_read(circular, inner, placed, machine):
    cache, update = normal(2, 1, 2048, inner), normal(2, 1, 2, inner, seed=1)
    first = np.array([700, 2047 if circular else 2046])
    expected = cache.copy()
    for batch, begin in enumerate(first):
        for row in range(2):
            expected[batch, 0, (begin + row) % 2048] = update[batch, 0, row]
    built = Built(lambda *x: cache_update(*x, circular), [cache, update, first], machine)
    built.inputs[1] = tvm.runtime.from_dlpack(placed(update))
    np.testing.assert_array_equal(built()[0], expected)
