"""Products of 32-bit integers by fixed-point numbers, as vectors of instructions.

:func:`tvmconv.operators.narrow.scaled` says what they compute. All families' forms round down to
the high 32 bits first and to the nearest number behind: ``floor((floor(x) + n) / m) = floor((x + n)
/ m)`` for integers ``n`` and ``m``, so that it is one rounding.
"""

from __future__ import annotations

from typing import Any


def scaled(whole: Any, multiplier: Any, shift: Any) -> Any:
    """By products of 64 bits: lanes of even places, and those of odd ones.

    Halves of 64-bit words are multiplied where they lie; widened vectors, which is what LLVM makes
    of a plain product, have to be put together again.
    """
    from tvm import tirx

    lanes, kind = int(whole.ty.dtype.lanes), str(whole.ty.dtype)
    if lanes % 2:
        wide = kind.replace("int32", "int64")
        product = tirx.Cast(wide, whole) * tirx.Cast(wide, multiplier)
        high = tirx.Cast(kind, product >> spread(32, "int64", lanes))
    else:
        odd = [tirx.IntImm("int32", i | 1) for i in range(lanes)]
        # not by a shift of 64-bit words, which AVX2 lacks for signed ones: LLVM would make one
        moved = [tirx.Shuffle([vector], odd) for vector in (whole, multiplier)]
        pairs = ((whole, multiplier), moved)
        products = [tirx.reinterpret(kind, _even(a) * _even(b)) for a, b in pairs]
        places = [i // 2 * 2 + 1 + lanes * (i % 2) for i in range(lanes)]
        high = tirx.Shuffle(products, [tirx.IntImm("int32", place) for place in places])
    one = spread(1, "int32", lanes)
    return (high + (one << (shift - one))) >> shift


def _even(vector: Any) -> Any:
    """Lanes of even places as integers of 64 bits."""
    from tvm import tirx

    words = int(vector.ty.dtype.lanes) // 2
    half = spread(32, "int64", words)
    return (tirx.reinterpret(f"int64x{words}", vector) << half) >> half


def spread(value: int, dtype: str, lanes: int) -> Any:
    """A number, or a vector that repeats it."""
    from tvm import tirx

    number = tirx.const(value, dtype)
    return number if lanes == 1 else tirx.Broadcast(number, lanes)
