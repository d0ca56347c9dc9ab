from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block
from tests.operators.harness import HOST, MACHINES, Built, each_machine, normal, run
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


@each_machine
@pytest.mark.parametrize("channels", [20, 19, 6])
def test_a_partly_filled_block_is_copied_by_vectors(channels, machine):
    """Rows that squares overlap; squares for six channels are shorter."""
    x, lanes = normal(2, channels, 5, 7), machine.channel_block
    blocked = block(x, lanes)
    there = Built(lambda t: to_blocked(t, lanes), [x], machine)
    back = Built(lambda t: from_blocked(t, channels), [blocked], machine)
    np.testing.assert_array_equal(blocked, there()[0])
    np.testing.assert_array_equal(x, back()[0])


def test_bytes_of_a_partly_filled_block():
    x = np.random.default_rng(0).integers(-128, 128, (1, 70, 4, 9), np.int8)
    lanes = HOST.channel_block
    blocked = block(x, lanes)
    np.testing.assert_array_equal(blocked, run(lambda t: to_blocked(t, lanes), x, machine=HOST))
    plain = run(lambda t: from_blocked(t, 70), blocked, machine=HOST)
    np.testing.assert_array_equal(x, plain)
