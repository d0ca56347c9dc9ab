"""Quantization and its inverse on either layout, with ONNX's rounding and saturation.

TVM's own lowering of ``quantize`` and ``dequantize`` does not define the result of a NaN, and the
scheduling rules do not recognize its functions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of, record_of
from tvmconv.graph.ir import Array, Node, Value
from tvmconv.graph.quantized.byte_products import multiply_of_run_time_bytes
from tvmconv.graph.quantized.scales import Linear
from tvmconv.machines.record import processor
from tvmconv.operators.byte_products import byte_panels, byte_product, row_sums
from tvmconv.operators.lookup import lookup
from tvmconv.operators.quantise import Parameter, dequantise, quantise
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.op_pattern import OUT_ELEMENTWISE_FUSABLE
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor

_LINEAR = ("dequantize", "quantize")
_INTEGERS = ("int8", "uint8", "int16", "uint16")


def is_linear(node: Node) -> bool:
    """Whether a node quantizes FP32, or dequantizes integers to FP32."""
    if node.op not in _LINEAR or node.output.shape is None:
        return False
    data, scale, zero_point = (value.dtype for value in node.inputs)
    integers, real = (
        (data, node.output.dtype) if node.op == "dequantize" else (node.output.dtype, data)
    )
    known = (*_INTEGERS, "int32") if node.op == "dequantize" else _INTEGERS
    return integers in known and real == scale == "float32" and "int" in zero_point


def emit_linear(emitter: Emitter, node: Node, blocked: bool) -> None:
    """Emit a node for which :func:`is_linear` holds; constant numbers become part of the code.

    Parameters are constants if the node is computed on blocks.
    """
    data, *parameters = node.inputs
    numbers = [_number(value) for value in parameters]
    operands: list[RelaxExpr] = [emitter.operand(data, blocked)]
    for value in (v for v, number in zip(parameters, numbers, strict=True) if number is None):
        if blocked:
            vector = _block_vector(emitter, value, node.output.dims[1])
            operands.append(constant_of(vector, value.dtype))
        else:
            operands.append(emitter.as_plain(value))
    axes: tuple[int, ...] = (1, 4)
    if not blocked:
        axes = (node.attrs["axis"] % len(data.dims),) if data.dims else ()
    call = emitter.call(_expression(node, numbers, axes), operands, record_of(node))
    emitter.define(node.output, call, blocked)


def emit_byte_product(emitter: Emitter, node: Node) -> None:
    """A product of two matrices of bytes."""
    left, right, *zeros = node.inputs
    machine = processor(emitter.machine)
    multiply = multiply_of_run_time_bytes(machine)
    assert multiply is not None
    of_left, of_right = node.attrs["zero_points"]
    data, columns = emitter.as_plain(left), right.dims[-1]
    copied = CallRecord(node.layer, "pack_columns")
    packed = emitter.call(
        lambda b: byte_panels(b, multiply, machine.lanes, of_left),
        [emitter.as_plain(right)],
        copied,
        opaque=True,
    )
    panels, *sums = emitter.parts(packed, 2, copied) if of_left else [packed]
    if of_right:
        sums.append(emitter.call(row_sums, [data], CallRecord(node.layer, "row_sums")))
    operands = [emitter.as_plain(zero) for zero in zeros]

    def expression(a: Tensor, b: Tensor, *rest: Tensor) -> Tensor:
        pairs = list(zip(rest[::2], rest[1::2], strict=True))
        left_zero = pairs.pop(0) if of_left else None
        right_zero = pairs.pop(0) if of_right else None
        return byte_product(a, b, columns, left_zero, right_zero, multiply)

    args = [data, panels, *(e for pair in zip(operands, sums, strict=True) for e in pair)]
    record = CallRecord(node.layer, "matmul", flops=2 * prod(node.output.dims) * left.dims[-1])
    attrs = {"op_pattern": OUT_ELEMENTWISE_FUSABLE}
    emitter.plain[node.output] = emitter.call(expression, args, record, attrs=attrs)


def _block_vector(emitter: Emitter, value: Value, channels: int) -> Array:
    """(C,) -> (ceil(C/c), c), padded with ones because surplus lanes are divided, too."""
    assert value.data is not None
    vector = np.broadcast_to(value.data.reshape(-1), channels)
    surplus = emitter.machine.blocks(channels) * emitter.lanes - channels
    return np.pad(vector, (0, surplus), constant_values=1).reshape(-1, emitter.lanes)


def emit_flip(emitter: Emitter, node: Node, blocked: bool) -> None:
    """Integers of the other 8-bit type whose highest bit is flipped."""
    source, dtype = node.args[0], node.output.dtype

    def flipped(x: Expr) -> Expr:
        bits = x if source.dtype == "uint8" else tirx.reinterpret("uint8", x)
        bits = bits ^ tirx.const(128, "uint8")
        return bits if dtype == "uint8" else tirx.reinterpret("int8", bits)

    def expression(x: Tensor) -> Tensor:
        return te.compute(x.shape, lambda *index: flipped(x[index]), name="flipped")

    result = emitter.call(expression, [emitter.operand(source, blocked)], record_of(node))
    emitter.define(node.output, result, blocked)


def emit_lookup(emitter: Emitter, node: Node, blocked: bool) -> None:
    """A function of 8-bit integers by a table of its values."""
    source, table = node.args
    values = constant_of(table.data, table.dtype)
    data = emitter.operand(source, blocked)
    shape = tuple(int(size) for size in data.ty.shape)
    # one row: vectors of bytes may not divide the rows of blocks
    row = emitter.reshape(data, (prod(shape),))
    found = emitter.call(lookup, [row, values], record_of(node), opaque=True)
    emitter.define(node.output, emitter.reshape(found, shape), blocked)


def _expression(
    node: Node, numbers: list[Parameter | None], axes: tuple[int, ...]
) -> Callable[..., Tensor]:
    """The node's function of its data and of the parameters with several values."""

    def expression(x: Tensor, *tensors: Tensor) -> Tensor:
        left = iter(tensors)
        scale, zero = (_of_tensor(next(left)) if n is None else n for n in numbers)
        if node.op == "quantize":
            return quantise(x, scale, zero, node.output.dtype, axes)
        return dequantise(x, scale, zero, axes)

    return expression


def dequantized_by(x: Tensor, linear: Linear) -> Tensor:
    """Numbers from integers by constant parameters."""
    return dequantise(x, *_immediates(linear))


def quantized_by(x: Tensor, linear: Linear) -> Tensor:
    """Integers from numbers by constant parameters."""
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
