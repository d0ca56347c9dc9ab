"""Models whose 8-bit layers rescale sums by fixed point: their values, and what keeps float32."""

from __future__ import annotations

import numpy as np
import pytest

import tvmconv
from tests.graph.quantised_net import small_input, unoptimised
from tests.graph.quantised_networks import MODELS, moved, single, unrounded
from tvmconv.core.errors import ConfigError


@pytest.mark.parametrize("name", ["uint8", "wide_weight", "residual", "joined", "unrounded"])
def test_fixed_point_differs_by_single_steps(name: str):
    model = unrounded() if name == "unrounded" else MODELS[name]()
    feeds = small_input(model)
    built = tvmconv.build(model, threads=1, requantize="fixed")
    assert all(":fixed" in str(d.workload) for d in built.decisions)
    assert all(d.reason.endswith("; rescaled by fixed point") for d in built.decisions)
    (expected,) = unoptimised(model, feeds)
    (actual,) = built.run(feeds).values()
    units = np.unique(expected)
    step = np.diff(units).min()
    difference = np.abs(actual - expected) / step
    assert difference.max() < 1.5
    assert (difference > 0.5).mean() < 1e-3


def test_what_has_no_fixed_point_says_so():
    model = moved()
    feeds = small_input(model)
    built = tvmconv.build(model, threads=1, requantize="fixed")
    (expected, *_) = unoptimised(model, feeds)
    actual = built.run(feeds)[model.graph.output[0].name]
    assert np.abs(actual - expected).max() < 0.2
    reasons = [d.reason.rpartition("; rescaled by ")[2] for d in built.decisions]
    assert "float32: fixed point has no 'hardswish' step" in reasons
    assert built.manifest.policy["requantise"] == "fixed"


def test_unknown_ways_to_requantize_are_refused():
    with pytest.raises(ConfigError, match="requantize='round' must be float or fixed"):
        tvmconv.build(single(), requantize="round")
