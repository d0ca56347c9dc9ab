from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.operators.harness import MACHINES, Built, run
from tvmconv.operators import math

POINTS = 1 << 16
FUNCTIONS = {
    "exp": (math.exp, np.exp, (-87.2, 88.3)),
    "tanh": (math.tanh, np.tanh, (-10.0, 10.0)),
    "tanh_small": (math.tanh, np.tanh, (-0.7, 0.7)),
    "sigmoid": (math.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (-80.0, 80.0)),
    "log": (math.log, np.log, (1e-6, 1e6)),
}


def mapped(function):
    def expression(x):
        return te.compute(x.shape, lambda i: function(x[i]), name="mapped")

    return expression


def erf_reference(x):
    from math import erf

    return np.array([erf(v) for v in x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_relative_error(name):
    function, reference, (low, high) = FUNCTIONS[name]
    x = np.linspace(low, high, POINTS).astype(np.float32)
    y = run(mapped(function), x, machine=MACHINES[0])
    expected = reference(x.astype(np.float64))
    error = np.abs(y - expected) / np.maximum(np.abs(expected), 1e-30)
    assert error.max() < 1e-6


def test_erf_relative_error():
    x = np.linspace(-5, 5, 4096).astype(np.float32)
    expected = erf_reference(x.astype(np.float64))
    error = np.abs(run(mapped(math.erf), x, machine=MACHINES[0]) - expected)
    assert (error / np.maximum(np.abs(expected), 1e-30)).max() < 1e-6


def test_log_around_one_keeps_its_relative_error():
    x = np.linspace(0.5, 2.0, POINTS).astype(np.float32)
    expected = np.log(x.astype(np.float64))
    error = np.abs(run(mapped(math.log), x, machine=MACHINES[0]) - expected)
    assert (error / np.maximum(np.abs(expected), 1e-12)).max() < 1e-6


@pytest.mark.parametrize("exponent", [0.75, -0.75, 0.5])
def test_power_of_positive(exponent):
    x = np.exp(np.linspace(-9, 9, POINTS)).astype(np.float32)
    y = run(mapped(lambda v: math.pow_positive(v, exponent)), x, machine=MACHINES[0])
    expected = x.astype(np.float64) ** exponent
    assert (np.abs(y - expected) / expected).max() < 2e-6


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (math.exp, np.exp),
        (math.tanh, np.tanh),
        (math.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (math.log, np.log),
    ],
)
def test_special_values(function, reference):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 100, -100, 3e38, -1, 1], np.float32)
    with np.errstate(all="ignore"):
        expected = reference(x).astype(np.float32)
    y = run(mapped(function), x, machine=MACHINES[0])
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize("function", [math.exp, math.tanh, math.sigmoid, math.erf, math.log])
def test_code_is_vectors_without_library_calls(function, machine):
    built = Built(mapped(function), [np.zeros(1000, np.float32)], machine)
    assert built.vector_instructions() > 10
    assert built.library_calls() == []
