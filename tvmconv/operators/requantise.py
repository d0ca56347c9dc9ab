"""Requantization from integer sums to 8 bits, as scalar expressions that vectorize.

ONNX quantizes a real number ``v`` as ``clip(round(v / scale) + zero_point)``, rounding ties to
even. A layer's accumulators times the scales of data and weight are such numbers. Until the last
rounding, a model applies a sequence of steps, each with four numbers:

- ``add``: constant, and factor of the residual, two unused.
- ``quantise``: factor, lowest and highest result minus the zero point, factor of the result.
- The last step: factor, lowest and highest result minus the zero point, zero point.
- Others: four unused.

The first ``factor`` of a rounding is the reciprocal of the result's scale. If only additions
separate it from the previous rounding or the accumulators, the factors of the addends include it,
and it is unused. A residual's constant is its negated zero point times its factor. Bounds come from
the type, or are tighter if the model clips before it rounds. The last bounds include the bounds of
a ``quantise`` directly before them.
:func:`tvmconv.kernels.merged_scales.merged` computes the numbers from a model's scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.operators.epilogue import apply_step
from tvmconv.operators.narrow import narrowed, nearest, rounded_and_narrowed, whole_number
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr, Tensor

NUMBERS = 4


def whole_range(output: str, dtype: str) -> tuple[Expr, Expr, Expr]:
    """Bounds and zero point of a type's whole range, as constants for :func:`narrowed`."""
    low, high = int(tirx.min_value(output).value), int(tirx.max_value(output).value)
    return tirx.const(low, dtype), tirx.const(high, dtype), tirx.const(0, dtype)


def steps_after_bias(epilogue: Sequence[EpilogueOp]) -> list[EpilogueOp]:
    """The steps that have numbers, except the last rounding."""
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
    is_whole: bool = False,
) -> Expr:
    """The output for an integer accumulator.

    ``total`` is int32, the bias added. ``output`` is ``"uint8"``, ``"int8"`` or ``"float32"``,
    which has no last rounding. ``scale`` is the FP32 factor of the accumulator. ``numbers`` are the
    concatenated numbers of the steps; None if the output is FP32. The residual has 8 bits if the
    output does, else it is FP32; None if no step adds it. ``packs`` is whether the operators of
    :mod:`tvmconv.operators.narrow` narrow the result. Rounded sums and additions must then be below
    2**31 in magnitude. ``is_whole`` is the output's ``whole_range``.
    """
    value = total.astype("float32") * scale

    def number(index: int) -> Expr:
        assert numbers is not None
        return numbers[index]

    is_scaled = output != "float32"
    place, steps, bounds_late = 0, steps_after_bias(epilogue), False
    for step in steps:
        if step.kind == QUANTISE:
            # the last bounds include these, and packing with saturation clips at less cost
            bounds_late = packs and is_scaled and place == NUMBERS * (len(steps) - 1)
            if not bounds_late:
                value = _bounded(value, number, place, is_scaled)
            # not by adding the constant of `quantise`, which TVM's simplifier removes again, nor by
            # nearbyint, with which TVM keeps a loop over lanes
            value = whole_number(value) * number(place + 3)
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
    if is_whole:
        least, most, zero_point = whole_range(output, "float32")
        low, high = (low, high) if bounds_late else (least, most)
    if not is_scaled:
        value = value * number(place)
    if not packs:
        return rounded_and_narrowed(value, low, high, zero_point, output)
    if not is_scaled:
        # the magnitude is not bounded
        value = tirx.min(value, high)
    return narrowed(nearest(value), low, high, zero_point, output)


def _bounded(value: Expr, number: Callable[[int], Expr], place: int, is_scaled: bool) -> Expr:
    if not is_scaled:
        value = value * number(place)
    return tirx.min(tirx.max(value, number(place + 1)), number(place + 2))
