"""Vectors of 32-bit integers narrowed to 8 bits, several at once, by the processor's packing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvmconv.tir.general.fixed_point import scaled_by_halves, scaled_by_words
from tvmconv.tir.general.rewrite import function_pass, repeated
from tvmconv.tir.neon.multiply_by_lane import LANES
from tvmconv.tir.neon.narrowing import ADDS, nearest_of_arm, packed_by_arm, whole_by_adding

# attribute of functions for that architecture
AARCH64 = "tvmconv.aarch64"
# of 16 bytes each; packing instructions work within them
_LANE = 16
# 32-bit vectors that make one of 8 bits
_MOST = 4
_ROUND = {4: "llvm.x86.sse2.cvtps2dq", 8: "llvm.x86.avx.cvt.ps2dq.256"}
_ROUND_512 = "llvm.x86.avx512.mask.cvtps2dq.512"
# lanes of 32 bits -> packing of int32 to int16, and of int16 to each type of 8 bits
_PACK = {
    4: ("llvm.x86.sse2.packssdw.128", "llvm.x86.sse2.pack{}wb.128"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.pack{}wb"),
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.pack{}wb.512"),
}
_SIGNS = {"uint8": "us", "int8": "ss"}


def Narrowing() -> Any:
    """A pass that turns the operators of :mod:`tvmconv.operators.narrow` into instructions.

    Pattern: one to four stores behind each other in a sequence of statements, each of one vector
    of narrowed 32-bit integers, to places that follow each other in a buffer; the bounds and the
    zero point are the same.

    Rewrite: one store of one vector. Its integers are packed to 16 bits with saturation, the zero
    point is added with saturation, they are packed to 8 bits with saturation, and clipped by the
    bounds. The result is the same as with bounds first, since all steps keep the order of numbers
    and saturate at numbers that lie beyond the bounds of 8 bits.

    Why here: stores of a tile stand behind each other once loops are unrolled and vectorised.
    """
    return function_pass("Narrowing", _narrowing)


def _narrowing(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    from tvmconv.operators.narrow import NARROWED, NEAREST, SCALED, WHOLE

    found, packed = False, _packed
    left: dict[str, Any] = {}
    made: dict[str, Any] = {NEAREST: _nearest, SCALED: scaled_by_words, WHOLE: _whole}
    if func.attrs and func.attrs.get(AARCH64) is not None:
        made[NEAREST] = nearest_of_arm
    if func.attrs and func.attrs.get(LANES) is not None:
        packed, made[SCALED] = packed_by_arm, scaled_by_halves
        if func.attrs.get(ADDS) is not None:
            made[WHOLE] = whole_by_adding
            # those that are packed take what is not rounded yet
            left[NEAREST] = made.pop(NEAREST)

    def look(call: Any) -> Any:
        nonlocal found
        name = str(getattr(call.op, "name", ""))
        found = found or name.startswith(NARROWED) or name in made
        return made[name](*call.args) if name in made else call

    body = tvm_ffi.structural_map(func.body, (ir.Call, look))
    if not found:
        return func

    def sequence(node: Any) -> Any:
        parts = list(_grouped(list(node.seq), packed))
        return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)

    def single(call: Any) -> Any:
        if not str(getattr(call.op, "name", "")).startswith(NARROWED):
            return call
        return _alone(call)

    body = tvm_ffi.structural_map(body, (tirx.SeqStmt, sequence))
    body = tvm_ffi.structural_map(body, (ir.Call, single))

    def rest(call: Any) -> Any:
        name = str(getattr(call.op, "name", ""))
        return left[name](*call.args) if name in left else call

    return func.with_body(tvm_ffi.structural_map(body, (ir.Call, rest)) if left else body)


def _grouped(statements: Sequence[Any], packed: Any) -> Iterator[Any]:
    """The statements, stores of narrowed vectors that follow each other as one."""
    group: list[Any] = []
    for statement in statements:
        if group and (len(group) == _MOST or not _follows(statement, group)):
            yield from _stored(group, packed)
            group = []
        if _is_narrowed(statement):
            group.append(statement)
        else:
            yield statement
    if group:
        yield from _stored(group, packed)


def _is_narrowed(statement: Any) -> bool:
    from tvm import ir, tirx

    from tvmconv.operators.narrow import NARROWED

    if not isinstance(statement, tirx.BufferStore) or not isinstance(statement.value, ir.Call):
        return False
    lanes = int(statement.value.ty.dtype.lanes)
    (index,) = statement.indices if len(statement.indices) == 1 else (None,)
    named = str(getattr(statement.value.op, "name", "")).startswith(NARROWED)
    ramp = isinstance(index, tirx.Ramp) and int(index.stride) == 1
    return named and ramp and lanes in _PACK


def _follows(statement: Any, group: Sequence[Any]) -> bool:
    import tvm_ffi
    from tvm import sym

    if not _is_narrowed(statement) or not statement.buffer.same_as(group[0].buffer):
        return False
    first, (ramp,) = group[0], statement.indices
    expected = first.indices[0].base + len(group) * int(first.indices[0].lanes)
    if int(ramp.lanes) != int(first.indices[0].lanes):
        return False
    pairs = zip(statement.value.args[1:], first.value.args[1:], strict=True)
    if not all(tvm_ffi.structural_equal(one, other) for one, other in pairs):
        return False
    return bool(sym.Analyzer().can_prove_equal(ramp.base, expected))


def _stored(group: Sequence[Any], pack: Any) -> Iterator[Any]:
    """One vector made of a group's, stored in pieces whose lengths are powers of two."""
    from tvm import tirx

    first = group[0]
    (ramp,) = first.indices
    lanes, base = int(ramp.lanes), ramp.base
    values = [store.value.args[0] for store in group]
    dtype = str(first.value.ty.dtype).partition("x")[0]
    packed = pack(values, first.value.args[1:], dtype, lanes)
    left, done = len(group), 0
    one = tirx.IntImm(str(base.ty.dtype), 1)
    while left:
        size = 1 << (left.bit_length() - 1)
        begin, length = done * lanes, size * lanes
        piece = packed
        if length < _MOST * lanes:
            piece = tirx.Shuffle([packed], list(range(begin, begin + length)))
        place = tirx.Ramp(base + begin, one, length)
        yield tirx.BufferStore(first.buffer, piece, [place])
        left, done = left - size, done + size


def _packed(values: Sequence[Any], limits: Sequence[Any], dtype: str, lanes: int) -> Any:
    """Four vectors of int32 as one of 8 bits; the last stands for those missing."""
    from tvm import tirx

    low, high, zero_point = (repeated(number) for number in limits)
    to_16, to_8 = _PACK[lanes]
    to_8 = to_8.format(_SIGNS[dtype])
    values = [*values, *[values[-1]] * (_MOST - len(values))]
    halves = []
    zeros = tirx.Broadcast(zero_point.astype("int16"), 2 * lanes)
    for pair in (values[:2], values[2:]):
        half = tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", to_16, *pair)
        halves.append(
            tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", "llvm.sadd.sat", half, zeros)
        )
    bytes_ = tirx.call_llvm_pure_intrin(f"int8x{_MOST * lanes}", to_8, *halves)
    count = lanes * 4 // _LANE
    # lane by lane as packed; 32 bits of each vector in each
    words = tirx.reinterpret(f"int32x{lanes}", bytes_)
    order = [part * _MOST + vector for vector in range(_MOST) for part in range(count)]
    ordered = tirx.Shuffle([words], order) if count > 1 else words
    result = tirx.reinterpret(f"{dtype}x{_MOST * lanes}", ordered)
    ends = (tirx.Broadcast((end + zero_point).astype(dtype), _MOST * lanes) for end in (low, high))
    return tirx.min(tirx.max(result, next(ends)), next(ends))


def _nearest(value: Any) -> Any:
    """float32 to int32 as the processor rounds, halves to even."""
    from tvm import tirx

    lanes = int(value.ty.dtype.lanes)
    if lanes == 16:
        blank = tirx.Broadcast(tirx.const(0, "int32"), lanes)
        rest = (blank, tirx.const(-1, "int16"), tirx.const(4, "int32"))
        return tirx.call_llvm_pure_intrin("int32x16", _ROUND_512, value, *rest)
    if lanes in _ROUND:
        return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _ROUND[lanes], value)
    number = str(value.ty.dtype).replace("float32", "int32")
    low = tirx.const(-(2.0**31), "float32")
    bounded = tirx.max(value, low if lanes == 1 else tirx.Broadcast(low, lanes))
    return tirx.Cast(number, tirx.nearbyint(bounded))


def _whole(value: Any) -> Any:
    """float32 rounded to an integer, halves to even."""
    from tvm import tirx

    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.roundeven", value)


def _alone(call: Any) -> Any:
    """The same by arithmetic, of scalars and of vectors of other lengths."""
    from tvm import tirx

    whole, *numbers = call.args
    kind = str(whole.ty.dtype)
    low, high, zero_point = (tirx.Cast(kind, number) for number in numbers)
    bounded = tirx.min(tirx.max(whole, low), high) + zero_point
    return tirx.Cast(str(call.ty.dtype), bounded)
