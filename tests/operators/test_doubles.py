"""Functions of float64 against numpy's longer floating-point numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import te

from tests.operators.harness import HOST, run
from tvmconv.operators import doubles
from tvmconv.operators.double_angles import double_angles

FUNCTIONS = {
    "exp": (doubles.exp, np.exp),
    "sigmoid": (doubles.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (doubles.tanh, np.tanh),
    "log": (doubles.log, np.log),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 709.78, 709.79, 711, 0.625, -0.625, 22,
           1e308, -1e308, 1e-300, -1e-300, 5e-324, 1e-310, 2.0**-1022, 2.0**-1022 - 5e-324,
           1 - 2.0**-53, 1 + 2.0**-52, 2.0**0.5, 0.5**0.5, 1.7976931348623157e308]  # fmt: skip


def _points() -> np.ndarray:
    normal = np.random.default_rng(0).standard_normal(1 << 13)
    scaled = [normal * scale for scale in (1e-8, 1e-2, 0.4, 3, 60)]
    return np.concatenate([*scaled, np.linspace(-744, 709.7, 1 << 13), SPECIAL])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_float64_err_by_less_than_two_last_bits(name: str) -> None:
    function, reference = FUNCTIONS[name]
    x = _points()
    actual = run(
        lambda a: te.compute(a.shape, lambda i: function(a[i]), name="mapped"), x, machine=HOST
    )
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.longdouble))
        expected = exact.astype(np.float64)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    normal = finite & (np.abs(expected) > 1e-307)
    error = np.abs((actual[normal] - exact[normal]) / exact[normal])
    assert error.max() < 4e-16
    np.testing.assert_array_equal(np.signbit(actual[x == 0]), np.signbit(expected[x == 0]))
    if name == "exp":
        # denormal results may be rounded twice
        apart = np.abs(actual[finite & ~normal] - expected[finite & ~normal])
        assert apart.max() <= 1e-323


def test_the_error_function_errs_by_less_than_two_last_bits() -> None:
    x = np.concatenate([_points(), np.linspace(-6.5, 6.5, 1 << 12), [1, -1, 1 - 2.0**-53, 6, -6]])
    actual = run(
        lambda a: te.compute(a.shape, lambda i: doubles.erf(a[i]), name="mapped"), x, machine=HOST
    )
    expected = np.vectorize(math.erf)(x)
    np.testing.assert_allclose(actual, expected, rtol=4e-16, atol=1e-323)
    np.testing.assert_array_equal(np.signbit(actual[x == 0]), np.signbit(expected[x == 0]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_float64_err_by_less_than_two_last_bits(name: str) -> None:
    quarters = np.arange(-600, 600) * (np.pi / 2)
    # the second is 6381956970095103 * 2**797, the float64 number closest to a multiple of pi / 2
    far = [1.6e6, 6381956970095103 * 2.0**797, 1e22, 1e300, -1e18, 1647099.0, 1.7e308]
    near = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.5, 355.0, 1e6 + 0.5, 103993.0]
    x = np.concatenate([_points(), quarters, np.linspace(-1.65e6, 1.65e6, 5003), near, far])
    actual = run(lambda a: double_angles(a, name, HOST.vector_bytes // 8), x, machine=HOST)
    # the C library; functions of numpy err by up to four last bits
    function = getattr(math, name)
    expected = np.array([function(v) if np.isfinite(v) else np.nan for v in x])
    np.testing.assert_allclose(actual, expected, rtol=6e-16, atol=0)
    zeros = np.flatnonzero(x == 0)
    np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))
