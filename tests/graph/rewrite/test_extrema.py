"""Minimum and maximum of one tensor, which are found in one pass."""

from __future__ import annotations

import numpy as np
import pytest

import tvmconv
from tests.graph.network import Net


@pytest.mark.parametrize("shape", [(3,), (4097,), (9, 4111)])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_range_of_a_tensor(shape: tuple[int, ...], threads: int) -> None:
    net = Net(*shape)
    low, high = (net.op(kind, "x", keepdims=0) for kind in ("ReduceMin", "ReduceMax"))
    built = tvmconv.build(net.model(low, high), threads=threads, log="none")
    assert [call.operator for call in built.calls] == ["min+max"]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for values in (x, x - 9, x + 9):
        assert list(built.run(values)) == [values.min(), values.max()]
    x.flat[-1], x.flat[0] = -np.inf, np.inf
    assert list(built.run(x)) == [-np.inf, np.inf]


def test_extremes_of_other_tensors_stay_alone() -> None:
    net = Net(40, 30)
    low = net.op("ReduceMin", "x", keepdims=0)
    high = net.op("ReduceMax", net.op("Neg", "x"), keepdims=0)
    built = tvmconv.build(net.model(low, high), threads=1, log="none")
    assert "min+max" not in [call.operator for call in built.calls]
