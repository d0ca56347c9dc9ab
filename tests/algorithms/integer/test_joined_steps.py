"""Two reduction steps of bytes at once: sums stay within 16 bits, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.algorithms.integer.byte_steps import steps_of
from tvmconv.algorithms.integer.saturation import MASKS, ORDERS

BLOCKS, STEPS = 3, 150


def drawn(kind: str, lanes: int) -> np.ndarray:
    """Packed weights, ``(blocks, steps, lanes, 2, 2)``."""
    generator = np.random.default_rng(lanes)
    shape = (BLOCKS, STEPS, lanes, 2, 2)
    if kind == "extreme":
        return generator.choice([-128, -127, -64, 0, 1, 64, 127], shape).astype(np.int8)
    return np.rint(generator.normal(0, float(kind), shape)).clip(-128, 127).astype(np.int8)


def taken(data: np.ndarray, variant: int) -> np.ndarray:
    """A dword of data as a step reads it, ``(..., 2, 2)``."""
    order, mask = divmod(int(variant), len(MASKS))
    bits = [MASKS[mask] >> 8 * place & 255 for place in range(4)]
    return (data[..., ORDERS[order]] ^ np.array(bits)).reshape(*data.shape[:-1], 2, 2)


@pytest.mark.parametrize(("orders", "beside"), [(1, False), (1, True), (3, True)])
@pytest.mark.parametrize(
    ("kind", "lanes", "least"), [("20", 8, 0.98), ("36", 16, 0), ("60", 4, 0), ("extreme", 8, 0)]
)
def test_sums_in_16_bits_are_exact(kind: str, lanes: int, least: float, orders: int, beside: bool):
    """Data that make the sums largest and smallest, and random data."""
    given = drawn(kind, lanes)
    found = steps_of(given, orders, beside)
    data = np.random.default_rng(0).choice([0, 1, 77, 254, 255], (STEPS, 4))
    starts = found.starts.reshape(-1)
    total = found.missing.astype(np.int64)
    twos = 0
    for block in range(BLOCKS):
        first, alone, end = starts[2 * block : 2 * block + 3]
        assert (alone - first) % 2 == 0
        twos += alone - first
        groups = [(i, i + 1) for i in range(first, alone, 2)] + [(i,) for i in range(alone, end)]
        for group in groups:
            weights = found.weights[list(group)].astype(np.int64)
            sides = np.maximum(weights, 0), np.minimum(weights, 0)
            largest, smallest = (255 * side.sum(axis=(0, -1)) for side in sides)
            assert largest.max() < 2**15
            assert smallest.min() >= -(2**15)
            for i, weight in zip(group, weights, strict=True):
                total[block] += (weight * taken(data[found.places[i]], found.variants[i])).sum(
                    axis=(-2, -1)
                )
                if not beside and len(group) == 2:
                    assert found.variants[i] == 0
    assert twos / starts[-1] >= least
    exact = (given.reshape(BLOCKS, STEPS, lanes, 4).astype(np.int64) * data[:, None]).sum(
        axis=(1, 3)
    )
    np.testing.assert_array_equal(total, exact)


def test_most_steps_are_in_twos():
    """Normal weights of the two scales of docs/notes/int8-measured.md."""
    for kind, beside, least in (("36", True, 0.95), ("36", False, 0.55), ("25", False, 0.95)):
        starts = steps_of(drawn(kind, 8), 1, beside).starts
        assert (starts[1:-1:2] - starts[:-2:2]).sum() / starts[-1] > least
