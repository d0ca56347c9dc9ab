"""Loads of pixels that lie apart: one instruction for a vector of them, wherever they are.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`. A segment is two elements of 64
bits, so that a gather of such brings whole pixels in half as many elements as one of float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.general.rewrite import substitute
from tvmconv.tir.sve.predicates import Lanes
from tvmconv.tir.sve.vectors import FLOATS, SEGMENT, NoScalableForm, intrinsic, number

# elements of 64 bits, and how many of them a segment has
_PAIRS, _PAIR_FLAGS, _BYTE_FLAGS = "float64xvscalex2", "boolxvscalex2", "boolxvscalex16"
_HALVES = 2


def gathered(pixels: Lanes, buffer: Any, first: Any, tests: Sequence[Any]) -> Any:
    """Four neighbouring values of each pixel, whose places differ as the pixels' numbers say.

    Parameters
    ----------
    pixels
        The vector.
    buffer
        Of float32, or of vectors of four.
    first
        Index at which the values of one pixel begin.
    tests
        Conditions of each pixel under which memory may be read; elsewhere it is zero.

    Raises
    ------
    NoScalableForm
        If pixels begin inside a segment.
    """
    from tvm import tirx

    analyzer, pixel = pixels.analyzer, pixels.pixel
    each = number(SEGMENT // int(buffer.dtype.lanes))
    step = analyzer.simplify(substitute(first, {pixel: pixel + 1}) - first)
    if isinstance(step, tirx.IntImm):
        origin, distance = pixels.first, pixel * step
        first_number: Any = number(0)
    else:
        # from the first pixel of all, so that what lanes add is the same for every tap
        origin, first_number = number(0), pixels.first
        distance = analyzer.simplify(first - substitute(first, {pixel: number(0)}))
    apart = analyzer.simplify(tirx.floormod(distance, each))
    if not str(buffer.dtype).startswith("float32") or not isinstance(apart, tirx.IntImm):
        raise NoScalableForm(f"pixels {distance} apart in {buffer.name}")
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
    from tvm import tirx

    return tirx.IntImm("int64", value)
