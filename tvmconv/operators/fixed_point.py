"""Requantization from integer sums to 8 bits in integer arithmetic: ``requantise="fixed"``.

A scale ``M`` is represented by a 31-bit multiplier ``m`` and a shift ``s`` (Wen 2020, section 4.3).
For ``M = 2**-n M0`` with ``M0`` from 0.5 to 1, ``m`` is the nearest integer to ``2**31 M0``. The
result is

``rounded = floor(sum * m / 2**(32 + s) + 1/2)``,

the nearest integer to ``sum * m / 2**(32 + s)``, with ties rounded up. ``requantise="float"``
rounds ties to even, and the paper leaves rounding open. An exact product is rounded once, not twice
as in gemmlowp's doubling multiplication. Only the result is clipped, to the bounds of 8 bits.

After an intermediate rounding, the value is a sum of a few integers times factors with ``f``
fractional bits. Each step has four int32 numbers:

- ``add``: zero point and factor of the residual, two unused.
- ``quantise``: ``f`` of the rounded value, lowest and highest result minus the zero point, the
  factor of the result.
- The last step: ``f`` of the rounded value, lowest and highest result minus the zero point, the
  zero point.

``f`` is unused if only a bias precedes a rounding, because the sum's multiplier includes it. A
residual is added to unrounded sums with ``f`` bits. The sums are rounded to these bits as above,
and first shifted left if the scale requires it. ReLU and clip are bounds. Other steps, such as
sigmoid, have no integer form.

:func:`tvmconv.kernels.multipliers.fixed_numbers` computes the numbers from scales, and reports
scales that are not exact enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.operators.narrow import narrowed, rounded_shift, scaled
from tvmconv.operators.requantise import NUMBERS, steps_after_bias, whole_range
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr, Tensor

# rows of scales for each channel: multiplier, right shift, and left shift before
SCALES = 3


def rescaled_in_integers(
    total: Expr,
    epilogue: Sequence[EpilogueOp],
    output: str,
    scale: Callable[[int], Expr],
    numbers: Tensor,
    residual: Expr | None,
    *,
    packs: bool = False,
    is_whole: bool = False,
) -> Expr:
    """A sum of products of integers as the output.

    ``scale`` gives the int32 numbers of the sum's channel by their place among :data:`SCALES`.
    ``numbers`` are the concatenated int32 numbers of the steps. Other arguments are as for
    :func:`~tvmconv.operators.requantise.rescaled`; the output has 8 bits.
    """
    steps = steps_after_bias(epilogue)
    is_sum = True
    if steps and steps[0].kind == "add":
        value, is_sum = scaled(total << scale(2), scale(0), scale(1)), False
    else:
        value = scaled(total, scale(0), scale(1))
    for place, step in enumerate(steps):
        row = [numbers[NUMBERS * place + i] for i in range(NUMBERS)]
        if step.kind == QUANTISE:
            whole = value if is_sum else rounded_shift(value, row[0])
            value = tirx.min(tirx.max(whole, row[1]), row[2]) * row[3]
        else:
            assert step.kind == "add" and residual is not None, step
            value = value + (residual.astype("int32") - row[0]) * row[1]
        is_sum = False
    bits, low, high, zero_point = (numbers[NUMBERS * len(steps) + i] for i in range(NUMBERS))
    if is_whole:
        low, high, zero_point = whole_range(output, "int32")
    whole = value if is_sum else rounded_shift(value, bits)
    if packs:
        return narrowed(whole, low, high, zero_point, output)
    return (tirx.min(tirx.max(whole, low), high) + zero_point).astype(output)
