"""From sums of integers to 8 bits, as scalar expressions that vectorise.

ONNX quantises a real number ``v`` as ``clip(round(v / scale) + zero_point)``, rounding halves to
the even neighbour. A layer's sums times the scales of data and weight are such numbers. What a
model does with them until the last rounding is a row of steps; each has four numbers:

=============  ========================================================================
step           its numbers
=============  ========================================================================
``add``        constant, and factor of the residual, two unused
``quantise``   factor, lowest and highest result less the zero point, factor of the result
the last       factor, lowest and highest result less the zero point, zero point
others         four unused
=============  ========================================================================

The first ``factor`` of a rounding is one over the result's scale. Where nothing but additions
stands between it and the rounding or the sums before, it is part of the factors of what is added,
and unused. A residual's constant is its zero point times its factor, negative. Bounds are those of
the type, or tighter where the model clips before it rounds.
:func:`tvmconv.kernels.merged_scales.merged` makes the numbers of a model's scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.operators.epilogue import apply_step
from tvmconv.operators.narrow import narrowed, nearest, rounded_and_narrowed, whole_number
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr, Tensor

NUMBERS = 4


def steps_after_bias(epilogue: Sequence[EpilogueOp]) -> list[EpilogueOp]:
    """The steps that have numbers, less the last rounding."""
    return [step for step in epilogue if step.kind != "bias"]


def rescaled(
    total: Expr,
    epilogue: Sequence[EpilogueOp],
    output: str,
    scale: Expr,
    numbers: Tensor | None,
    residual: Expr | None,
    *,
    packs: bool = False,
) -> Expr:
    """A sum of products of integers as the output.

    Parameters
    ----------
    total
        int32, the bias added.
    epilogue
        The workload's steps.
    output
        ``"uint8"``, ``"int8"`` or ``"float32"``, which has no last rounding.
    scale
        float32: what the sum is multiplied by.
    numbers
        Those of the steps, one behind the other; None where the output is float32.
    residual
        8 bits where the output has them, else float32; None where no step adds it.
    packs
        Whether the result is narrowed by the operators of :mod:`tvmconv.operators.narrow`. What
        is rounded must then be below 2**31 in magnitude, where it is sums and additions.
    """
    value = total.astype("float32") * scale

    def number(index: int) -> Expr:
        assert numbers is not None
        return numbers[index]

    is_scaled = output != "float32"
    place = 0
    for step in steps_after_bias(epilogue):
        if step.kind == QUANTISE:
            # not by the sum of below, which TVM's simplifier takes off again, nor by nearbyint,
            # with which TVM keeps a loop over lanes
            rounded = whole_number(_bounded(value, number, place, is_scaled))
            value = rounded * number(place + 3)
            is_scaled = True
        elif step.kind == "add":
            assert residual is not None
            term = residual
            if output != "float32":
                term = residual.astype("float32") * number(place + 1) + number(place)
            value = value + term
        else:
            value = apply_step(value, step)
            is_scaled = False
        place += NUMBERS
    if output == "float32":
        return value
    low, high, zero_point = (number(place + i) for i in (1, 2, 3))
    if not is_scaled:
        value = value * number(place)
    if not packs:
        return rounded_and_narrowed(value, low, high, zero_point, output)
    if not is_scaled:
        # nothing is known of its magnitude
        value = tirx.min(value, high)
    return narrowed(nearest(value), low, high, zero_point, output)


def _bounded(value: Expr, number: Callable[[int], Expr], place: int, is_scaled: bool) -> Expr:
    if not is_scaled:
        value = value * number(place)
    return tirx.min(tirx.max(value, number(place + 1)), number(place + 2))
