"""Merges the scales of steps to one factor for each term, for ``requantise="float"``.

If only additions separate two roundings, the scales of the addends include the second rounding's
factor, and a residual's zero point becomes a constant. ``a * A + (r * B + C)`` takes two FMAs, but
``(a * s + (r - z) * t) * f`` takes four instructions. The first form also rounds less often. Both
approximate the same real number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from tvmconv.core.epilogue_op import QUANTISE, EpilogueOp
from tvmconv.core.tensor import Array
from tvmconv.operators.requantise import NUMBERS, steps_after_bias

# maximum of 8 bits minus a zero point
_LARGEST_INTEGER = 255
# steps to neighboring float32 values that are tried for each factor, and for the constant
_NEAR, _NEAR_CONSTANT = (0, 1, -1), (0, 1, -1, 2, -2, 4, -4, 8, -8)


def merged(
    epilogue: Sequence[EpilogueOp], scale: Array, numbers: Array, output: str = ""
) -> tuple[Array, Array]:
    """Scales of accumulators and numbers of steps as kernels use them, in FP32.

    A rounded residual addition has 65,536 results. Its factors are chosen among neighboring FP32
    values. The chosen values give the most results that equal ONNX's FP32 steps, in ONNX's order
    and with a division by the result's scale. Usually all results are equal. Without an ``output``
    type, factors are computed by arithmetic alone.

    ``numbers`` of ``add`` are the zero point and the scale of the residual. All others are as in
    :mod:`tvmconv.operators.requantise`, with unmerged factors.
    """
    steps = steps_after_bias(epilogue)
    rows = numbers.astype(np.float64).reshape(-1, NUMBERS)
    given, factor = rows.copy(), 1.0
    for first, last in _additions(steps):
        # a bias alone before the first rounding leaves nothing to merge
        if first < 0 and last == 0:
            continue
        units = rows[last, 0]
        if first < 0:
            factor = units
        else:
            rows[first, 3] *= units
        rows[first + 1 : last, 1] *= units
    for place, step in enumerate(steps):
        if step.kind == "add":
            rows[place, 0] *= -rows[place, 1]
    if steps and steps[-1].kind == QUANTISE:
        # both roundings are monotonic: kernels bound the last result alone
        ends = rows[-2, 1:3].astype(np.float32) * np.float32(rows[-2, 3])
        rows[-1, 1:3] = _rounded(ends, tuple(rows[-1]))
    if output and [step.kind for step in steps] == [QUANTISE, "add"]:
        rows[0, 3], rows[1, 1], rows[1, 0] = _agreeing(*map(tuple, given), output)
    scaled = scale.astype(np.float64) * factor
    return scaled.astype(np.float32), rows.astype(np.float32).reshape(numbers.shape)


def largest_terms(epilogue: Sequence[EpilogueOp], numbers: Array) -> float:
    """The largest magnitude of terms that are added to sums; ``numbers`` are merged numbers."""
    rows = np.abs(numbers.astype(np.float64)).reshape(-1, NUMBERS)
    found = [0.0]
    for first, last in _additions(steps_after_bias(epilogue)):
        added = rows[first + 1 : last]
        rounded = rows[first, 3] if first >= 0 else 0.0
        found.append(float(_LARGEST_INTEGER * (rounded + added[:, 1].sum()) + added[:, 0].sum()))
    return max(found)


def last_factor(epilogue: Sequence[EpilogueOp], numbers: Array) -> float:
    """The factor of a rounded value that is rounded again at once; else 1.

    ``numbers`` are merged numbers.
    """
    steps = steps_after_bias(epilogue)
    is_last = bool(steps) and steps[-1].kind == QUANTISE
    return float(numbers.reshape(-1, NUMBERS)[-2, 3]) if is_last else 1.0


def _additions(steps: Sequence[EpilogueOp]) -> Iterator[tuple[int, int]]:
    """The positions of two roundings with additions in between; -1 is the accumulator."""
    first, only_adds = -1, True
    for place in range(len(steps) + 1):
        kind = steps[place].kind if place < len(steps) else QUANTISE
        if kind == QUANTISE:
            if only_adds:
                yield first, place
            first, only_adds = place, True
        elif kind != "add":
            only_adds = False


@lru_cache(maxsize=256)
def _agreeing(
    inner: tuple[float, ...], add: tuple[float, ...], last: tuple[float, ...], output: str
) -> tuple[float, float, float]:
    """Factors of a rounded sum and of a residual, and the constant, for given numbers."""
    info = np.iinfo(output)
    left = np.arange(int(inner[1]), int(inner[2]) + 1).reshape(-1, 1)
    right = np.arange(info.min, info.max + 1)
    real = [np.float32(inner[3]), np.float32(add[1]), np.float32(1 / last[0])]
    terms = left.astype(np.float32) * real[0] + (right - int(add[0])).astype(np.float32) * real[1]
    expected = _rounded(terms / real[2], last)

    units = last[0]
    nominal = [inner[3] * units, add[1] * units, -add[0] * add[1] * units]
    steps = [float(np.spacing(np.float32(value))) for value in nominal]
    steps[2] = max(steps[2], steps[1])
    best, fewest = nominal, left.size * right.size + 1
    for near in sorted(product(_NEAR, _NEAR, _NEAR_CONSTANT), key=lambda each: np.abs(each).sum()):
        moved = [value + n * step for value, n, step in zip(nominal, near, steps, strict=True)]
        a, b, c = (np.float64(np.float32(value)) for value in moved)
        # products of such numbers are exact in float64; each sum is rounded once
        term = (right * b + c).astype(np.float32).astype(np.float64)
        value = (left * a + term).astype(np.float32)
        wrong = int((_rounded(value, last) != expected).sum())
        if wrong < fewest:
            best, fewest = moved, wrong
        if not wrong:
            break
    return best[0], best[1], best[2]


def _rounded(value: Array, row: tuple[float, ...]) -> Array:
    rounded: Array = np.rint(value).clip(row[1], row[2])
    return rounded
