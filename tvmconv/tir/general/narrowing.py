"""Conversion of int32 vectors to 8 bits: the part that all families share.

:mod:`tvmconv.operators.narrow` defines the operators. A family gives :func:`narrowing_pass` the
functions that lower them to its instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.operators.narrow import NARROWED, NEAREST, SCALED, WHOLE
from tvmconv.tir.general.fixed_point import scaled
from tvmconv.tir.general.rewrite import function_pass, repeated

# int32 vectors that are packed into one vector of 8 bits
MOST = 4


@dataclass(frozen=True)
class Forms:
    """How a family lowers the operators.

    ``nearest`` makes FP32 the nearest int32, and ``whole`` the nearest integer as FP32. ``scaled``
    makes (int32, multiplier, shift) their fixed-point product. ``packed`` makes (four int32
    vectors, zero point, 8-bit type, lanes) one vector, bounded later. ``lanes`` are lane counts of
    int32 vectors that can be packed. If it ``rounds_late``, ``packed`` gets FP32 vectors and rounds
    them itself.
    """

    nearest: Callable[..., Any]
    scaled: Callable[..., Any]
    whole: Callable[..., Any]
    packed: Callable[[Sequence[Any], Any, str, int], Any]
    lanes: tuple[int, ...]
    rounds_late: bool = False


def Narrowing() -> Any:
    """A pass that narrows int32 by plain arithmetic, for families without a better form.

    Pattern: the operators of :mod:`tvmconv.operators.narrow`.

    Rewrite: minima, maxima, additions and casts.

    Why here: it replaces the passes that instruction families run at this stage.
    """
    forms = Forms(nearest=nearest, scaled=scaled, whole=whole, packed=_unpacked, lanes=())
    return narrowing_pass("Narrowing", forms)


def narrowing_pass(name: str, forms: Forms) -> Any:
    """A pass that lowers the operators of :mod:`tvmconv.operators.narrow` for a family."""
    return function_pass(name, lambda func: _narrowing(func, forms))


def _narrowing(func: Any, forms: Forms) -> Any:
    found = False
    late: dict[str, Any] = {}
    made: dict[str, Any] = {NEAREST: forms.nearest, SCALED: forms.scaled, WHOLE: forms.whole}
    if forms.rounds_late:
        late[NEAREST] = made.pop(NEAREST)

    def look(call: Any) -> Any:
        nonlocal found
        name = str(getattr(call.op, "name", ""))
        found = found or name.startswith(NARROWED) or name in made
        return made[name](*call.args) if name in made else call

    body = tvm_ffi.structural_map(func.body, (ir.Call, look))
    if not found:
        return func

    def sequence(node: Any) -> Any:
        parts = list(_grouped(list(node.seq), forms))
        return tirx.stmt_seq(*parts)

    def single(call: Any) -> Any:
        if not str(getattr(call.op, "name", "")).startswith(NARROWED):
            return call
        return _alone(call)

    body = tvm_ffi.structural_map(body, (tirx.SeqStmt, sequence))
    body = tvm_ffi.structural_map(body, (ir.Call, single))

    def rest(call: Any) -> Any:
        name = str(getattr(call.op, "name", ""))
        return late[name](*call.args) if name in late else call

    return func.with_body(tvm_ffi.structural_map(body, (ir.Call, rest)) if late else body)


def _grouped(statements: Sequence[Any], forms: Forms) -> Iterator[Any]:
    """The statements, with consecutive stores of narrowed vectors joined."""
    group: list[Any] = []
    for statement in statements:
        if group and (len(group) == MOST or not _follows(statement, group, forms)):
            yield from _stored(group, forms)
            group = []
        if _is_narrowed(statement, forms):
            group.append(statement)
        else:
            yield statement
    if group:
        yield from _stored(group, forms)


def _is_narrowed(statement: Any, forms: Forms) -> bool:
    if not isinstance(statement, tirx.BufferStore) or not isinstance(statement.value, ir.Call):
        return False
    lanes = int(statement.value.ty.dtype.lanes)
    (index,) = statement.indices if len(statement.indices) == 1 else (None,)
    named = str(getattr(statement.value.op, "name", "")).startswith(NARROWED)
    ramp = isinstance(index, tirx.Ramp) and int(index.stride) == 1
    return named and ramp and lanes in forms.lanes


def _follows(statement: Any, group: Sequence[Any], forms: Forms) -> bool:
    if not _is_narrowed(statement, forms) or not statement.buffer.same_as(group[0].buffer):
        return False
    first, (ramp,) = group[0], statement.indices
    expected = first.indices[0].base + len(group) * int(first.indices[0].lanes)
    if int(ramp.lanes) != int(first.indices[0].lanes):
        return False
    pairs = zip(statement.value.args[1:], first.value.args[1:], strict=True)
    if not all(tvm_ffi.structural_equal(one, other) for one, other in pairs):
        return False
    return bool(sym.Analyzer().can_prove_equal(ramp.base, expected))


def _stored(group: Sequence[Any], forms: Forms) -> Iterator[Any]:
    """One packed vector of a group, stored in pieces whose lengths are powers of two."""
    first = group[0]
    (ramp,) = first.indices
    lanes, base = int(ramp.lanes), ramp.base
    packed = _packed([store.value.args[0] for store in group], first.value, lanes, forms)
    left, done = len(group), 0
    one = tirx.IntImm(str(base.ty.dtype), 1)
    while left:
        size = 1 << (left.bit_length() - 1)
        begin, length = done * lanes, size * lanes
        piece = packed
        if length < MOST * lanes:
            piece = tirx.Shuffle([packed], list(range(begin, begin + length)))
        place = tirx.Ramp(base + begin, one, length)
        yield tirx.BufferStore(first.buffer, piece, [place])
        left, done = left - size, done + size


def _packed(values: Sequence[Any], call: Any, lanes: int, forms: Forms) -> Any:
    """One vector of a group's values within the bounds; the last value replaces missing ones."""
    low, high, zero_point = (repeated(number) for number in call.args[1:])
    dtype = str(call.ty.dtype).partition("x")[0]
    values = [*values, *[values[-1]] * (MOST - len(values))]
    result = forms.packed(values, zero_point, dtype, lanes)
    least, most = (
        tirx.Broadcast((end + zero_point).astype(dtype), MOST * lanes) for end in (low, high)
    )
    return tirx.min(tirx.max(result, least), most)


def nearest(value: Any) -> Any:
    """FP32 to int32, ties to even; values below the int32 range become the smallest int32."""
    lanes = int(value.ty.dtype.lanes)
    low = tirx.const(-(2.0**31), "float32")
    bounded = tirx.max(value, low if lanes == 1 else tirx.Broadcast(low, lanes))
    return tirx.Cast(str(value.ty.dtype).replace("float32", "int32"), tirx.nearbyint(bounded))


def whole(value: Any) -> Any:
    """FP32 rounded to an integer, ties to even."""
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.roundeven", value)


def _unpacked(*_: Any) -> Any:
    raise AssertionError("no vectors are packed")


def _alone(call: Any) -> Any:
    """Narrowing by arithmetic, for scalars and for other vector lengths."""
    whole, *numbers = call.args
    kind = str(whole.ty.dtype)
    low, high, zero_point = (tirx.Cast(kind, number) for number in numbers)
    bounded = tirx.min(tirx.max(whole, low), high) + zero_point
    return tirx.Cast(str(call.ty.dtype), bounded)
