"""Intrinsics that become expressions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tvm import te, tirx
from tvm.script import tirx as T

from tests.operators.harness import HOST, Built, each_machine
from tests.tir.rewrites import check, check_same
from tvmconv.operators import arcs, doubles, inverse_hyperbolic, math, powers, sines
from tvmconv.tir.general.relax_intrinsics import (
    VectorizableAngles,
    VectorizableDoubles,
    VectorizableMath,
    VectorizablePowers,
)

MODULES = {
    math: "exp log tanh sigmoid erf cosh sinh",
    arcs: "asin acos atan",
    inverse_hyperbolic: "asinh acosh atanh",
}


def calls_and_expressions(name, module, dtype):
    """A function that calls the intrinsic, and one with the expression of ``module``."""
    intrinsic, expression = getattr(tirx, name), getattr(module, name)

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), dtype), y: T.Buffer((8,), dtype)):
        for i in range(8):
            y[i] = intrinsic(x[i]) + x[i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), dtype), y: T.Buffer((8,), dtype)):
        for i in range(8):
            y[i] = expression(x[i]) + x[i]

    return before, expected


@pytest.mark.parametrize(
    ("name", "module"), [(name, m) for m, names in MODULES.items() for name in names.split()]
)
def test_a_call_becomes_its_expression(name, module):
    check(VectorizableMath(), *calls_and_expressions(name, module, "float32"))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_function_of_an_angle_becomes_its_expression(name):
    check(VectorizableAngles(), *calls_and_expressions(name, sines, "float32"))


@pytest.mark.parametrize("name", ["exp", "log", "sigmoid", "tanh", "erf"])
def test_a_call_of_float64_becomes_its_expression(name):
    check(VectorizableDoubles(), *calls_and_expressions(name, doubles, "float64"))


def test_a_power_becomes_its_expression():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.pow(x[i], y[i])

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = powers.power(x[i], y[i])

    check(VectorizablePowers(), before, expected)


@each_machine
def test_powers_are_those_of_the_c_library(machine):
    special = [0, -0.0, 1, -1, 0.5, -0.5, 1.7, -1.7, 2, -3, 5, 1e-40, 3e38, 102.5, -150, 2**24]
    special = np.array([*special, np.inf, -np.inf, np.nan, 0.99999994, 2**24 + 2], np.float32)
    x, y = (each.reshape(-1) for each in np.meshgrid(special, special))
    random = np.random.default_rng(0)
    x = np.append(x, np.exp(random.uniform(-60, 60, 999))).astype(np.float32)
    y = np.append(y, random.uniform(-2, 2, 999)).astype(np.float32)

    def expression(a, b):
        return te.compute(a.shape, lambda i: tirx.power(a[i], b[i]))

    built = Built(expression, [x, y], machine)
    (z,) = built()
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(z, wanted, 1)
    np.testing.assert_array_equal(np.signbit(z[~np.isnan(z)]), np.signbit(wanted[~np.isnan(z)]))
    assert not built.code.has("powf")


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_inverses_of_trigonometric_and_hyperbolic_functions(name):
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-38, 0.41421357]
    ends = 1 - np.logspace(-7, 0, 50)
    far = np.concatenate([np.linspace(-1.1, 1.1, 221), np.logspace(-30, 30, 61), ends, -ends])
    from_one = 1 + np.logspace(-6, 38, 89)
    x = np.concatenate([special, far, from_one]).astype(np.float32)
    built = Built(lambda t: te.compute(t.shape, lambda i: getattr(tirx, name)(t[i])), [x], HOST)
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = getattr(np, f"arc{name[1:]}")(x.astype(np.float64))
    (y,) = built()
    np.testing.assert_allclose(y, wanted, rtol=5e-7, atol=0)
    np.testing.assert_array_equal(np.signbit(y[:2]), np.signbit(wanted[:2]))
    assert not built.code.has(name)


@each_machine
def test_functions_of_angles_of_every_magnitude(machine):
    # the float32 number closest to a multiple of pi / 2 of all is 16367173 * 2**72
    special = [0.0, -0.0, 1e-45, -1e-38, 16367173 * 2.0**72, np.pi, 11.0, 3.4028235e38]
    every = np.arange(0, 0x7F800000, 77777, dtype=np.uint32).view(np.float32)
    x = np.concatenate([special, every, -every, np.linspace(-30, 30, 4000)]).astype(np.float32)
    infinite = np.array([np.inf, -np.inf, np.nan], np.float32)

    for name, function in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        expression = partial(_each, getattr(tirx, name))
        built = Built(expression, [np.concatenate([x, infinite])], machine)
        (y,) = built()
        wanted = function(x.astype(np.float64))
        assert (np.abs(y[: x.size] - wanted) <= 2 * np.spacing(np.abs(wanted).astype("f4"))).all()
        np.testing.assert_array_equal(np.signbit(y[:2]), np.signbit(wanted[:2]))
        assert np.isnan(y[x.size :]).all()
        assert not built.code.has(f"{name}f")


def _each(function, t):
    return te.compute(t.shape, lambda i: function(t[i]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_isnan_is_vector_code_that_finds_nan(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1] * 20, dtype)
    built = Built(lambda t: te.compute(t.shape, lambda i: tirx.isnan(t[i])), [x], HOST)
    (y,) = built()
    np.testing.assert_array_equal(y, np.isnan(x))
    assert built.vector_instructions() > 0


def test_other_types_and_intrinsics_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.Cast("float32", T.exp(x[i])) + T.sqrt(y[i])

    check_same(VectorizableMath(), others)
