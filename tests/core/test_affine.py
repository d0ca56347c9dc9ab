"""Arithmetic of one constant per channel, compared with the arithmetic itself."""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.core.affine import scale_and_shift


@pytest.mark.parametrize("operator", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("constant_first", [False, True])
def test_scale_and_shift(operator: str, constant_first: bool) -> None:
    constant, x = np.array([0.5, -2.0, 4.0]), np.array([8.0, 3.0, -1.0])
    found = scale_and_shift(operator, constant, constant_first=constant_first)
    if operator == "divide" and constant_first:
        assert found is None
        return
    assert found is not None
    operands = (constant, x) if constant_first else (x, constant)
    np.testing.assert_array_equal(x * found[0] + found[1], getattr(np, operator)(*operands))


def test_what_is_not_affine() -> None:
    assert scale_and_shift("divide", np.array([1.0, 0.0]), constant_first=False) is None
    assert scale_and_shift("maximum", np.array([1.0]), constant_first=False) is None
