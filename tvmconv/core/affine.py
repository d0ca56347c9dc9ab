"""Arithmetic of a tensor and one constant per channel, as a scale and a shift."""

from __future__ import annotations

import numpy as np

from .tensor import Array


def scale_and_shift(
    operator: str, constant: Array, *, constant_first: bool
) -> tuple[Array, Array] | None:
    """(scale, shift), float64[C] each, if ``operator`` computes x * scale + shift.

    ``operator`` is ``add``, ``subtract``, ``multiply`` or ``divide``. Its operands are x and
    ``constant``, float64[C], or the reverse if ``constant_first``. The result is None for other
    operators, for quotients of a constant and x, and for divisions by zero.
    """
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    if operator == "add":
        return one, constant
    if operator == "multiply":
        return constant, zero
    if operator == "subtract":
        return (-one, constant) if constant_first else (one, -constant)
    if operator == "divide" and not constant_first and np.all(constant):
        return 1 / constant, zero
    return None
