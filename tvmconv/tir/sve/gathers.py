"""Gathers positions that are not contiguous, one instruction for a vector of them.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`. A segment is two elements of 64
bits, so a gather of 64-bit elements needs half as many elements as a gather of FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import substitute
from tvmconv.tir.sve.predicates import Lanes
from tvmconv.tir.sve.vectors import FLOATS, SEGMENT, NoScalableForm, intrinsic, number

# elements of 64 bits, and their number in a segment
_PAIRS, _PAIR_FLAGS, _BYTE_FLAGS = "float64xvscalex2", "boolxvscalex2", "boolxvscalex16"
_HALVES = 2


def gathered(pixels: Lanes, buffer: Any, first: Any, tests: Sequence[Any]) -> Any:
    """Gather four contiguous values of each position; addresses depend on the position's index.

    Raises ``NoScalableForm`` if positions begin inside a segment. The buffer is of FP32, or of
    vectors of four FP32 values. The values of one position begin at the index ``first``. ``tests``
    are conditions under which a position may be read; elsewhere the value is zero.
    """
    analyzer, pixel = pixels.analyzer, pixels.pixel
    each = number(SEGMENT // int(buffer.dtype.lanes))
    step = analyzer.simplify(substitute(first, {pixel: pixel + 1}) - first)
    if isinstance(step, tirx.IntImm):
        origin, distance = pixels.first, pixel * step
        first_number: Any = number(0)
    else:
        # offsets from the very first position are the same for every tap
        origin, first_number = number(0), pixels.first
        distance = analyzer.simplify(first - substitute(first, {pixel: number(0)}))
    apart = analyzer.simplify(tirx.floormod(distance, each))
    if not str(buffer.dtype).startswith("float32") or not isinstance(apart, tirx.IntImm):
        raise NoScalableForm(f"positions with a stride of {distance} in {buffer.name}")
    halves = tirx.vscale() * _HALVES
    lanes = tirx.Ramp(_long(0), _long(1), halves)
    one = tirx.Broadcast(_long(1), halves)
    first_number = tirx.Broadcast(tirx.Cast("int64", first_number), halves)
    numbers = first_number + tirx.shift_right(lanes, one)
    segments = analyzer.simplify(tirx.floordiv(distance, each)) * _HALVES
    offsets = pixels.each(segments, numbers) + tirx.bitwise_and(lanes, one)
    place = substitute(first, {pixel: origin})
    address = tirx.address_of(tirx.BufferLoad(buffer, [place]))
    flags = intrinsic(_BYTE_FLAGS, "convert.to.svbool", pixels.mask(tests))
    flags = intrinsic(_PAIR_FLAGS, "convert.from.svbool", flags)
    pairs = intrinsic(_PAIRS, "ld1.gather.index", flags, address, offsets)
    return tirx.reinterpret(FLOATS, pairs)


def _long(value: int) -> Any:
    return tirx.IntImm("int64", value)
