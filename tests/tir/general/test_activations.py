"""Activations that become arithmetic."""

from __future__ import annotations

from functools import reduce
from math import erf

import numpy as np
import pytest
from tvm import te, tirx
from tvm.script import tirx as T

from tests.operators.harness import HOST, Built
from tests.tir.rewrites import check, check_same
from tvmconv.operators import math
from tvmconv.operators.epilogue import GATED, NORMAL, SIGMOID, TANH
from tvmconv.operators.products import registered
from tvmconv.tir.general.activations import Activations

EXPRESSIONS = {
    SIGMOID: math.inline_sigmoid,
    GATED: lambda x: math.inline_gated(x, x),
    TANH: math.inline_tanh,
    NORMAL: math.inline_normal,
}
REFERENCES = {
    SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    GATED: lambda x: x / (1 + np.exp(-x)),
    TANH: np.tanh,
    NORMAL: np.vectorize(lambda x: (1 + erf(x / 2**0.5)) / 2),
}


def activation(name, x):
    operands = [x, x] if name == GATED else [x]
    return tirx.call_intrin("float32", registered(name), *operands)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_number_becomes_its_expression(name):
    expression = EXPRESSIONS[name]

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = activation(name, x[i]) * x[i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = expression(x[i]) * x[i]

    check(Activations(), before, expected)
    check_same(Activations(), expected)


def test_the_normal_distribution_ends_at_0_and_1():
    """A Gelu multiplies it by numbers of any size."""
    x = np.array([-3e38, -1e4, -5.604, 5.604, 1e4, 3e38] * 3, dtype="float32")
    built = Built(lambda t: te.compute(t.shape, lambda i: activation(NORMAL, t[i])), [x], HOST)
    assert built()[0].tolist() == [0, 0, 0, 1, 1, 1] * 3


def test_the_normal_distribution_ends_at_0_and_1_without_fmas():
    """A GPU's compiler may round products separately."""
    end = np.float32(math._NORMAL_END)

    def polynomial(coefficients):
        return reduce(lambda y, c: y * (end * end) + c, map(np.float32, coefficients))

    ratio = end * polynomial(math._NORMAL_NUMERATOR) / polynomial(math._NORMAL_DENOMINATOR)
    assert ratio.dtype == np.float32 and ratio == 0.5


@pytest.mark.parametrize("name", [SIGMOID, GATED])
def test_results_with_an_exponential_are_precise(name):
    x = np.linspace(-87, 87, 40001, dtype="float32")
    built = Built(lambda t: te.compute(t.shape, lambda i: activation(name, t[i])), [x], HOST)
    np.testing.assert_allclose(built()[0], REFERENCES[name](x.astype("float64")), 4e-7)


def test_silu_of_far_numbers_is_zero():
    x = np.array([-3e38, -1e30, -100, -89, -88.5, 3e38, np.inf, -np.inf] * 3, dtype="float32")
    built = Built(lambda t: te.compute(t.shape, lambda i: activation(GATED, t[i])), [x], HOST)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x / (1 + np.exp(-x.astype("float64")))
    np.testing.assert_allclose(built()[0], expected, 1e-6, 1e-36)


@pytest.mark.parametrize("name", REFERENCES)
def test_vectors_and_a_rest_are_right(name):
    reference = REFERENCES[name]
    x = np.linspace(-80, 80, 1031, dtype="float32")
    x[:3] = np.nan, np.inf, -np.inf
    built = Built(lambda t: te.compute(t.shape, lambda i: activation(name, t[i])), [x], HOST)
    with np.errstate(invalid="ignore"):
        expected = reference(x.astype("float64"))
    np.testing.assert_allclose(built()[0], expected, 1e-6, 1e-6)
    assert built.vector_instructions() > 0 and not built.library_calls()
