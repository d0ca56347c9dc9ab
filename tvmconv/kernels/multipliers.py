"""Represents scales as integers, for kernels with ``requantise="fixed"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor, log2

import numpy as np

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp, without_fixed_point
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.operators.requantise import NUMBERS, steps_after_bias

_MOST_BITS = 31
# scales below this have a right shift of at least one bit, which rounds
_LARGEST_SCALE = 0.25
# fractional bits of added terms
_FEWEST_BITS, _FEW_TERMS = 8, 24
# maximum of 8 bits minus a zero point
_LARGEST_INTEGER = 255
# limits that leave space for half a unit, and for a left shift of sums
_TERMS, _SUMS = 2.0**30, 2.0**27


@dataclass(frozen=True)
class FixedNumbers:
    """Integer operands of one layer.

    ``scale``, (3, K), are multipliers, right shifts, and left shifts before them. ``numbers`` are
    of the steps, see :mod:`tvmconv.operators.fixed_point`.
    """

    scale: Array
    numbers: Array


def in_fixed_point(
    workload: Conv2dWorkload, scale: Array, numbers: Array, largest: Array
) -> Conv2dWorkload | str:
    """An INT8 workload with ``requantise="fixed"`` instead of float, or why it has no such form."""
    if not workload.types.is_requantised:
        return "no rounding to 8 bits follows its sums"
    kind = replace(workload.types.quantisation, requantise="fixed")
    types = replace(workload.types, quantisation=kind)
    if reason := without_fixed_point(workload.epilogue):
        return reason
    found = fixed_numbers(workload.epilogue, scale, numbers, largest)
    return found if isinstance(found, str) else replace(workload, types=types)


def fixed_numbers(
    epilogue: Sequence[EpilogueOp], scale: Array, numbers: Array, largest: Array
) -> FixedNumbers | str:
    """A layer's scales as integers, or the reason why that is not possible, as a clause.

    ``scale``, (K,), are the factors of the accumulators, and ``largest``, (K,), their largest
    magnitudes. ``numbers`` are as in :mod:`tvmconv.operators.requantise`, in FP64.
    """
    steps, rows = steps_after_bias(epilogue), numbers.astype(np.float64).reshape(-1, NUMBERS)
    found = np.zeros(rows.shape, np.int64)
    scale = scale.astype(np.float64)
    result: Array | None = None if steps and steps[0].kind == "add" else _normalized(scale)
    if result is not None and not _is_small(scale, largest):
        return "a scale of its sums is a quarter or more, or lets them reach 2**27"
    # the terms of the next rounding: step, number and factor
    terms: list[tuple[int, int, float]] = []
    sums = result is None
    for place, row in enumerate(rows):
        kind = steps[place].kind if place < len(steps) else ""
        if kind == "add":
            found[place, 0] = row[0]
            terms.append((place, 1, row[1]))
            continue
        if terms or sums:
            units = 1 / row[0] if row[0] else 1.0
            reached = float((largest * scale).max()) / units if sums else 0.0
            bits = _bits([value / units for _, _, value in terms], reached)
            if bits is None:
                return "its terms have too different scales"
            for step, number, value in terms:
                found[step, number] = np.rint(value / units * 2.0**bits)
            found[place, 0] = bits
            if sums:
                result = _normalized(scale / units * 2.0**bits, shifted=True)
        found[place, 1:] = row[1:]
        if kind == QUANTISE:
            found[place, 3] = 0
            terms = [(place, 3, row[3])]
        sums = False
    assert result is not None
    return FixedNumbers(result, found.reshape(-1).astype(np.int32))


def _is_small(scale: Array, largest: Array) -> bool:
    return bool(np.all(scale < _LARGEST_SCALE * (1 - 2.0**-31)) and np.all(scale * largest < _SUMS))


def _bits(factors: Sequence[float], sums: float) -> int | None:
    """Fractional bits with which a sum of 8-bit integers times factors fits 32 bits."""
    terms = _LARGEST_INTEGER * sum(factors)
    limits = [_FEW_TERMS, floor(log2(_TERMS / terms)) if terms else _FEW_TERMS]
    limits += [floor(log2(_SUMS / sums))] if sums else []
    return min(limits) if min(limits) >= _FEWEST_BITS else None


def _normalized(scale: Array, shifted: bool = False) -> Array:
    """31-bit multiplier, right and left shift; below 2**-32 the multiplier has fewer bits."""
    with np.errstate(divide="ignore"):
        exponent = np.where(scale > 0, np.frexp(scale)[1], -(2**10))
    # scale = multiplier * 2**(left - 32 - right), right from 1 to 31
    right = np.clip(-1 - exponent, 1, _MOST_BITS)
    left = np.clip(exponent + 2, 0, _MOST_BITS) if shifted else np.zeros_like(exponent)
    multiplier = np.rint(np.ldexp(scale, 32 + right - left)).astype(np.int64)
    over = multiplier == 1 << _MOST_BITS
    multiplier = np.where(over, multiplier >> 1, multiplier)
    grows = over & (right == 1)
    right, left = right - (over & ~grows), left + grows
    return np.stack([multiplier, right, left]).astype(np.int32)
