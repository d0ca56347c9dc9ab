"""Products of 32-bit integers by fixed-point numbers, as vector instructions.

:func:`tvmconv.operators.narrow.scaled` defines them. All families first round down to the high 32
bits, then round to nearest. For integers ``n`` and ``m``, ``floor((floor(x) + n) / m) = floor((x +
n) / m)``, so the result is rounded once.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx


def scaled(whole: Any, multiplier: Any, shift: Any) -> Any:
    """Fixed-point product by 64-bit products of the even lanes and of the odd lanes.

    The dwords are multiplied in place. LLVM would widen both vectors for a plain product, and
    would have to join the results again.
    """
    lanes, kind = int(whole.ty.dtype.lanes), str(whole.ty.dtype)
    if lanes % 2:
        wide = kind.replace("int32", "int64")
        product = tirx.Cast(wide, whole) * tirx.Cast(wide, multiplier)
        high = tirx.Cast(kind, product >> spread(32, "int64", lanes))
    else:
        odd = [tirx.IntImm("int32", i | 1) for i in range(lanes)]
        # not a 64-bit arithmetic shift, which AVX2 lacks and LLVM would emulate
        moved = [tirx.Shuffle([vector], odd) for vector in (whole, multiplier)]
        operands = ((whole, multiplier), moved)
        products = [tirx.reinterpret(kind, _even(a) * _even(b)) for a, b in operands]
        places = [i // 2 * 2 + 1 + lanes * (i % 2) for i in range(lanes)]
        high = tirx.Shuffle(products, [tirx.IntImm("int32", place) for place in places])
    one = spread(1, "int32", lanes)
    return (high + (one << (shift - one))) >> shift


def _even(vector: Any) -> Any:
    """The even lanes as 64-bit integers."""
    lanes = int(vector.ty.dtype.lanes) // 2
    half = spread(32, "int64", lanes)
    return (tirx.reinterpret(f"int64x{lanes}", vector) << half) >> half


def spread(value: int, dtype: str, lanes: int) -> Any:
    """A number, or a vector that repeats it."""
    number = tirx.const(value, dtype)
    return number if lanes == 1 else tirx.Broadcast(number, lanes)
