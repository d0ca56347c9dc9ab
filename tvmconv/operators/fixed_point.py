"""From sums of integers to 8 bits in integers alone: ``requantise="fixed"``.

A scale ``M`` of sums is held as a multiplier ``m`` of 31 bits and a shift ``s`` (after Wen 2020,
section 4.3: ``M = 2**-n M0`` with ``M0`` from a half to one, as the integer nearest to ``2**31
M0``), and

``rounded = floor(sum * m / 2**(32 + s) + 1/2)``,

the nearest integer to ``sum * m / 2**(32 + s)``, halves up, where ``requantise="float"`` rounds
halves to even. The source leaves rounding open. This is one rounding of an exact product, not two
as by gemmlowp's doubling multiplication; nothing saturates but the result, which is clipped to the
bounds of its 8 bits at the end. What is behind a rounding in the middle is a sum of few integers
times factors with ``f`` bits behind the point:

===============  ==================================================================
step             its numbers, int32
===============  ==================================================================
``add``          zero point and factor of the residual, two unused
``quantise``     ``f`` of what is rounded, lowest and highest result less the zero
                 point, the factor of the result
the last         ``f`` of what is rounded, lowest and highest result less the zero
                 point, the zero point
===============  ==================================================================

``f`` is unused where nothing but a bias stands before a rounding: the sum's multiplier holds it. A
residual added to sums that were not rounded meets them with ``f`` bits, to which they are rounded
as above, shifted left before where the scale asks for it. Other steps (sigmoid and the like; relu
and clip are bounds) have no such form.

:func:`tvmconv.kernels.multipliers.fixed_numbers` makes the numbers of scales, and says where none
are exact enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.core.datatypes import DataTypes
from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.operators.narrow import narrowed, rounded_shift, scaled
from tvmconv.operators.requantise import NUMBERS, steps_after_bias
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr, Tensor

# of each channel: multiplier, shift to the right, shift to the left before
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
) -> Expr:
    """A sum of products of integers as the output.

    Parameters
    ----------
    total, epilogue, output, residual, packs
        As for :func:`~tvmconv.operators.requantise.rescaled`; the output has 8 bits.
    scale
        The numbers of the sum's channel, int32, by their place among :data:`SCALES`.
    numbers
        int32, those of the steps, one behind the other.
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
    whole = value if is_sum else rounded_shift(value, bits)
    if packs:
        return narrowed(whole, low, high, zero_point, output)
    return (tirx.min(tirx.max(whole, low), high) + zero_point).astype(output)


def not_in_integers(types: DataTypes, epilogue: Sequence[EpilogueOp]) -> str | None:
    """Why steps have no form in integers, as a clause; None if they have, or are not asked to."""
    if types.quantisation.requantise != "fixed":
        return None
    kinds = [step.kind for step in steps_after_bias(epilogue)]
    others = [kind for kind in kinds if kind not in (QUANTISE, "add")]
    return f"fixed point has no {others[0]!r} step" if others else None
