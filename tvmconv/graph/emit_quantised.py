"""Quantisation and its inverse on the plain layout, with ONNX's rounding and saturation.

The functions that TVM makes of Relax's ``quantize`` and ``dequantize`` leave open what becomes of
values that are not numbers, and are not known by name when functions are scheduled.
"""

from __future__ import annotations

import numpy as np

from tvmconv.graph.emitter import CallRecord, Emitter
from tvmconv.graph.ir import Node, Value
from tvmconv.operators.quantise import Parameter, dequantise, quantise
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import RelaxExpr, Tensor

LINEAR = ("dequantize", "quantize")
_INTEGERS = ("int8", "uint8", "int16", "uint16")


def is_linear(node: Node) -> bool:
    """Whether a node quantises float32, or makes float32 of integers."""
    if node.op not in LINEAR or node.output.shape is None:
        return False
    data, scale, zero_point = (value.dtype for value in node.inputs)
    integers, real = (
        (data, node.output.dtype) if node.op == "dequantize" else (node.output.dtype, data)
    )
    known = (*_INTEGERS, "int32") if node.op == "dequantize" else _INTEGERS
    return integers in known and real == scale == "float32" and "int" in zero_point


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
    axis, dtype = node.attrs["axis"] % max(len(data.dims), 1), node.output.dtype

    def expression(x: Tensor, *tensors: Tensor) -> Tensor:
        left = iter(tensors)
        scale, zero = (_of_tensor(next(left)) if n is None else n for n in numbers)
        axes = (axis,) if len(data.dims) else ()
        if node.op == "quantize":
            return quantise(x, scale, zero, dtype, axes)
        return dequantise(x, scale, zero, axes)

    emitter.plain[node.output] = emitter.call(expression, operands, record)


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
