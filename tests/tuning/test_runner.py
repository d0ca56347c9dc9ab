"""Where candidates are timed: the data that their calls find in the caches."""

from __future__ import annotations

import numpy as np

from tvmconv.tuning.runner import LocalRunner


def timed_calls(weight_bytes, cache_bytes):
    """The weights and the inputs that the calls of one timing see."""
    seen = []
    runner = LocalRunner([{"main": lambda *tensors: seen.append(tensors)}], 1, cache_bytes)
    arrays = [np.ones(8), np.arange(weight_bytes // 4, dtype="float32"), np.zeros(8)]
    tensors = runner.tensors(arrays)
    runner.time(0, tensors, samples=2, seconds=1e-3)
    return tensors, seen


def test_a_weight_is_not_seen_again_before_the_cache_was_replaced():
    cache = 1 << 16
    tensors, seen = timed_calls(weight_bytes=1 << 13, cache_bytes=cache)
    order = [id(call[1]) for call in seen]
    distinct = len(set(order))
    assert (distinct - 1) * (1 << 13) >= cache
    for start in range(len(order) - distinct):
        assert len(set(order[start : start + distinct])) == distinct
    for data, weight, output in seen:
        assert data is tensors[0]
        assert output is tensors[2]
        np.testing.assert_array_equal(weight.numpy(), tensors[1].numpy())


def test_small_weights_are_not_copied_without_end():
    _, seen = timed_calls(weight_bytes=64, cache_bytes=1 << 26)
    assert len({id(call[1]) for call in seen}) <= 256
