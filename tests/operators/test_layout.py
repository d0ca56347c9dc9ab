from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block
from tests.operators.harness import MACHINES, normal, run
from tvmconv.operators.layout import from_blocked, to_blocked

SHAPES = [(1, 64, 7, 7), (2, 35, 6, 9), (1, 3, 17, 16), (3, 1, 1, 1), (1, 100, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lanes", [8, 16])
def test_blocking_pads_with_zeros(shape, lanes):
    x = normal(*shape)
    y = run(lambda t: to_blocked(t, lanes), x, machine=MACHINES[0])
    np.testing.assert_array_equal(block(x, lanes), y)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lanes", [8, 16])
def test_unblocking_crops(shape, lanes):
    x = normal(*shape)
    blocked = block(x, lanes, fill=7.0)
    y = run(lambda t: from_blocked(t, shape[1]), blocked, machine=MACHINES[0])
    np.testing.assert_array_equal(x, y)
