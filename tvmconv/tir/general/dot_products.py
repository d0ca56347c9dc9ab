"""Dot products of narrow numbers: the part that all instruction families share.

:mod:`tvmconv.operators.products` defines the operators. A family gives :func:`dot_product_pass` a
function that writes one accumulation with its instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import PAIR, SIDE_BY_SIDE, WORD, instruction_of
from tvmconv.tir.general.rewrite import function_pass, item_bytes, repeated

# (accumulator, operands, instruction with suffixes) -> the sum; None for another family's
Emit = Callable[[Any, Sequence[Any], str], Any]
_DWORD_BYTES = 4


# the instruction of CPUs without dot products
_PLAIN = "plain_pairs"


def DotProducts() -> Any:
    """A pass that lowers dot products to plain arithmetic, for families without instructions.

    Pattern: ``accumulator + dot(data, weight)`` of int32 or vectors of them.

    Rewrite: loads become loads of whole dwords. Shifts extract the elements of a dword.

    Why here: it replaces the passes that instruction families run at this stage.
    """

    def emit(total: Any, operands: Sequence[Any], name: str) -> Any:
        data, weight = operands
        return total + arithmetic(data, weight, 16) if name == _PLAIN else None

    return dot_product_pass("DotProducts", emit)


def dot_product_pass(
    name: str,
    emit: Emit,
    before: Callable[[Any], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
) -> Any:
    """A pass that lowers ``accumulator + dot(data, weight)`` to instructions.

    ``emit`` writes one accumulation. ``before`` rewrites calls of operators before their operands
    become loads of whole dwords. ``after`` completes a function that the pass has changed.
    """

    def rewrite(func: Any) -> Any:
        done = _rewritten(func, emit, before)
        return done if after is None or done is func else after(done)

    return function_pass(name, rewrite)


def _rewritten(func: Any, emit: Emit, before: Callable[[Any], Any] | None) -> Any:
    found = False

    def load(call: Any) -> Any:
        nonlocal found
        name = getattr(call.op, "name", "")
        # functions may copy dwords without multiplying them
        copied = name == WORD or name.startswith(SIDE_BY_SIDE)
        found = found or copied or bool(instruction_of(name))
        if name.startswith(SIDE_BY_SIDE):
            return _side_by_side(call, int(name.removeprefix(SIDE_BY_SIDE)))
        if name not in (WORD, PAIR):
            return call
        return _dword(call.args[0], widened=name == PAIR)

    body = func.body
    if before is not None:
        body = tvm_ffi.structural_map(body, (ir.Call, before))
    body = tvm_ffi.structural_map(body, (ir.Call, load))
    if not found:
        return func

    def add(node: Any) -> Any:
        for total, product in ((node.a, node.b), (node.b, node.a)):
            name = instruction_of(getattr(getattr(product, "op", None), "name", ""))
            if name:
                made = emit(total, product.args, name)
                return node if made is None else made
        return node

    return func.with_body(tvm_ffi.structural_map(body, (tirx.Add, add)))


def arithmetic(data: Any, weight: Any, bits: int, unsigned: bool = False) -> Any:
    """The dot product of dwords in plain arithmetic, for scalars and unusual vector lengths.

    Each int32 packs elements of ``bits`` bits. ``unsigned`` concerns the elements of the data.
    """
    lanes = int(data.ty.dtype.lanes)

    def number(value: int) -> Any:
        scalar = tirx.const(value, "int32")
        return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)

    def element(dword: Any, position: int, unsigned: bool) -> Any:
        if unsigned:
            return (dword >> number(bits * position)) & number(2**bits - 1)
        return (dword << number(32 - bits * (position + 1))) >> number(32 - bits)

    products = [element(data, i, unsigned) * element(weight, i, False) for i in range(32 // bits)]
    return sum(products[1:], products[0])


def is_zero(value: Any) -> bool:
    """Whether an integer, or every lane of a vector, is the constant 0."""
    scalar = repeated(value)
    return isinstance(scalar, tirx.IntImm) and int(scalar) == 0


def _dword(load: Any, widened: bool) -> Any:
    """The dwords that begin at the loaded elements."""
    (index,) = load.indices
    size = 2 if widened else _DWORD_BYTES // item_bytes(str(load.source.dtype))
    lanes, first = 1, index
    if isinstance(index, tirx.Ramp):
        if int(index.stride) != size:
            raise ValueError(f"dwords of {load.source.name} are {index.stride} elements apart")
        lanes, first = int(index.lanes), index.base
    one = tirx.IntImm(str(first.ty.dtype), 1)
    values = tirx.BufferLoad(load.source, [tirx.Ramp(first, one, size * lanes)])
    if widened:
        values = tirx.Cast(f"int16x{size * lanes}", values)
    return tirx.reinterpret("int32" if lanes == 1 else f"int32x{lanes}", values)


def _side_by_side(call: Any, width: int) -> Any:
    """Dwords that interleave the elements of several vectors."""
    lanes, kind = int(call.ty.dtype.lanes), str(call.ty.dtype)
    values = [_unsigned(value) for value in call.args]
    if all(is_zero(value) for value in values[1:]):
        return tirx.Cast(kind, values[0])
    if lanes == 1:
        bits = 32 // width
        parts = [tirx.Cast(kind, value) << bits * i for i, value in enumerate(values)]
        return sum(parts[1:], parts[0])
    # missing elements may have any value: a broadcast from memory loads the last vector twice
    values += values[-1:] * (width - len(values))
    order = [i + lanes * row for i in range(lanes) for row in range(width)]
    mixed = tirx.Shuffle(values, [tirx.IntImm("int32", place) for place in order])
    if width == 2:
        mixed = tirx.Cast(f"uint16x{lanes * width}", mixed)
    return tirx.reinterpret(kind, mixed)


def _unsigned(byte: Any) -> Any:
    """The same bits as unsigned bytes, which zero-extend to a dword."""
    kind = str(byte.ty.dtype)
    if kind.startswith("u"):
        return byte
    if not is_zero(byte):
        return tirx.reinterpret(f"u{kind}", byte)
    zero = tirx.const(0, "uint8")
    return tirx.Broadcast(zero, byte.lanes) if isinstance(byte, tirx.Broadcast) else zero
