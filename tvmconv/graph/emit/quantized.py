"""Quantisation and its inverse on either layout, with ONNX's rounding and saturation.

The functions that TVM makes of Relax's ``quantize`` and ``dequantize`` leave open what becomes of
values that are not numbers, and are not known by name when functions are scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.ir import Array, Node, Value
from tvmconv.graph.quantized.scales import Linear
from tvmconv.operators.lookup import lookup
from tvmconv.operators.quantise import Parameter, dequantise, quantise
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor

_LINEAR = ("dequantize", "quantize")
_INTEGERS = ("int8", "uint8", "int16", "uint16")


def is_linear(node: Node) -> bool:
    """Whether a node quantises float32, or makes float32 of integers."""
    if node.op not in _LINEAR or node.output.shape is None:
        return False
    data, scale, zero_point = (value.dtype for value in node.inputs)
    integers, real = (
        (data, node.output.dtype) if node.op == "dequantize" else (node.output.dtype, data)
    )
    known = (*_INTEGERS, "int32") if node.op == "dequantize" else _INTEGERS
    return integers in known and real == scale == "float32" and "int" in zero_point


def emit_blocked_linear(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """Emit a node with constant parameters on blocks."""
    data, *parameters = node.inputs
    numbers = [_number(value) for value in parameters]
    # surplus lanes are divided, too
    operands = [
        constant_of(_block_vector(emitter, value, node.output.dims[1]), value.dtype)
        for value, number in zip(parameters, numbers, strict=True)
        if number is None
    ]
    expression = _expression(node, numbers, (1, 4))
    call = emitter.call(expression, [emitter.as_blocked(data), *operands], record)
    emitter.set_blocked(node.output, call)


def _block_vector(emitter: Emitter, value: Value, channels: int) -> Array:
    """(C,) -> (ceil(C/c), c), padded with ones."""
    assert value.data is not None
    vector = np.broadcast_to(value.data.reshape(-1), channels)
    surplus = emitter.machine.blocks(channels) * emitter.lanes - channels
    return np.pad(vector, (0, surplus), constant_values=1).reshape(-1, emitter.lanes)


def emit_flip(emitter: Emitter, node: Node, record: CallRecord, blocked: bool) -> None:
    """Integers of the other 8-bit type with the same bits but the highest."""
    source, dtype = node.args[0], node.output.dtype

    def flipped(x: Expr) -> Expr:
        bits = x if source.dtype == "uint8" else tirx.reinterpret("uint8", x)
        bits = bits ^ tirx.const(128, "uint8")
        return bits if dtype == "uint8" else tirx.reinterpret("int8", bits)

    def expression(x: Tensor) -> Tensor:
        return te.compute(x.shape, lambda *index: flipped(x[index]), name="flipped")

    if blocked:
        result = emitter.call(expression, [emitter.as_blocked(source)], record)
        emitter.set_blocked(node.output, result)
    else:
        emitter.plain[node.output] = emitter.call(expression, [emitter.as_plain(source)], record)


def emit_lookup(emitter: Emitter, node: Node, record: CallRecord, blocked: bool) -> None:
    """A function of 8-bit integers by a table of its values."""
    source, table = node.args
    values = constant_of(table.data, table.dtype)
    data = emitter.as_blocked(source) if blocked else emitter.as_plain(source)
    shape = tuple(int(size) for size in data.ty.shape)
    # in one row: vectors of bytes are longer than rows of blocks, or do not divide them
    row = emitter.reshape(data, (prod(shape),))
    found = emitter.call(lookup, [row, values], record, opaque=True)
    result = emitter.reshape(found, shape)
    if blocked:
        emitter.set_blocked(node.output, result)
    else:
        emitter.plain[node.output] = result


def emit_linear(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """Emit a node for which :func:`is_linear` holds; constant numbers become part of the code."""
    data, *parameters = node.inputs
    numbers = [_number(value) for value in parameters]
    operands: list[RelaxExpr] = [emitter.as_plain(data)]
    operands += [
        emitter.as_plain(value)
        for value, number in zip(parameters, numbers, strict=True)
        if number is None
    ]
    axis = node.attrs["axis"] % max(len(data.dims), 1)
    expression = _expression(node, numbers, (axis,) if len(data.dims) else ())
    emitter.plain[node.output] = emitter.call(expression, operands, record)


def _expression(
    node: Node, numbers: list[Parameter | None], axes: tuple[int, ...]
) -> Callable[..., Tensor]:
    """The node's function of its data and of the parameters that are no single number."""

    def expression(x: Tensor, *tensors: Tensor) -> Tensor:
        left = iter(tensors)
        scale, zero = (_of_tensor(next(left)) if n is None else n for n in numbers)
        if node.op == "quantize":
            return quantise(x, scale, zero, node.output.dtype, axes)
        return dequantise(x, scale, zero, axes)

    return expression


def dequantized_by(x: Tensor, linear: Linear) -> Tensor:
    """What integers stand for by constant parameters."""
    return dequantise(x, *_immediates(linear))


def quantized_by(x: Tensor, linear: Linear) -> Tensor:
    """Integers by constant parameters."""
    return quantise(x, *_immediates(linear), linear.dtype)


def _immediates(linear: Linear) -> tuple[Parameter, Parameter]:
    scale = tirx.const(linear.scale, "float32")
    zero_point = tirx.const(linear.zero_point, linear.dtype)
    return lambda *_: scale, lambda *_: zero_point


def _of_tensor(tensor: Tensor) -> Parameter:
    """A tensor of rank 0 or 1 as a function of the index of a channel."""
    rank = len(tensor.shape)
    return tensor if rank and int(tensor.shape[0]) > 1 else lambda *_: tensor[(0,) * rank]


def _number(value: Value) -> Parameter | None:
    """A constant parameter that has one value, as an immediate for every channel."""
    if value.data is None or not value.data.size:
        return None
    first = value.data.reshape(-1)[0]
    if not np.all(value.data == first):
        return None
    number = float(first) if value.dtype == "float32" else int(first)
    return lambda *_: tirx.const(number, value.dtype)
