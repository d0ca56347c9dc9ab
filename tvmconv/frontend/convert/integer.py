"""Convolution and matrix product of 8-bit integers, with sums in int32."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.conv import WINDOW, as_row
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.integers import check_sums
from tvmconv.frontend.windows import conv_window
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("ConvInteger", attrs=WINDOW, inputs=2)
def conv_integer(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Convolution of data and weight, each less its zero point; padding is zero after that."""
    data, weight = node.inputs[:2]
    shape = e.shape(weight)
    window = conv_window(node, e.shape(data), shape, None)
    column = (-1, *[1] * (len(shape) - 1))
    w = _centered(e, node, 1, _zero_point(e, node, 3, (shape[0],), column))
    if isinstance(w, np.ndarray):
        check_sums(node, w)
    rank, row = len(window.kernel), None
    if rank == 1:
        # expand the INT8 tensor, so that INT8 kernels are recognized
        row, w, window = as_row(e, e.value(data), w, window)
    x = _centered(e, node, 0, _zero_point(e, node, 2, (), ()), row)
    call = op.nn.conv3d if rank == 3 else op.nn.conv2d
    y = call(
        _bound(x), _bound(w), strides=window.strides, padding=window.padding,
        dilation=window.dilations, groups=window.groups, out_dtype="int32",
    )  # fmt: skip
    y = e.emit(y)
    return op.squeeze(y, 2) if rank == 1 else y


@converts("MatMulInteger", inputs=2)
def matmul_integer(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Product of A and B, each less its zero point: one, or one a row of A and a column of B."""
    rows, columns = e.shape(node.inputs[0])[-2:], e.shape(node.inputs[1])[-1:]
    a = _centered(e, node, 0, _zero_point(e, node, 2, rows[:-1], (-1, 1)))
    b = _centered(e, node, 1, _zero_point(e, node, 3, columns, (-1,)))
    if isinstance(b, np.ndarray) and b.ndim > 1:
        check_sums(node, np.swapaxes(b, -1, -2).reshape(-1, b.shape[-2]))
    return op.matmul(_bound(a), _bound(b), out_dtype="int32")


def _zero_point(
    e: RelaxWriter, node: OnnxNode, index: int, vector: tuple[int, ...], column: tuple[int, ...]
) -> Array | RelaxExpr | None:
    """A zero point in INT32, in a shape that broadcasts to its tensor; None for 0.

    A zero point is a number, or has the shape ``vector`` and is reshaped to ``column``.
    """
    name = node.input(index)
    if not name:
        return None
    shape, values = e.shape(name), e.array(name)
    tensor = node.inputs[index - 2]
    if e.dtype(name) != e.dtype(tensor):
        raise node.error(
            f"zero point {name!r} is {e.dtype(name)}, but {tensor!r} is {e.dtype(tensor)}"
        )
    if int(np.prod(shape)) == 1:
        column = ()
    elif len(shape) == 1 and shape != vector:
        raise node.error(
            f"zero point {name!r} has shape {shape}; it must be a number"
            + (f", or have shape {vector}" if vector else "")
        )
    elif len(shape) > 1:
        # zero points of rows or columns of several matrices broadcast unchanged
        column = shape
    if values is not None:
        return values.astype(np.int32).reshape(column) if values.any() else None
    wide = op.astype(e.value(name), "int32")
    return (
        wide if shape == column else e.emit(op.reshape(e.emit(wide, "wide"), column), "zero_point")
    )


def _centered(
    e: RelaxWriter, node: OnnxNode, index: int, zero_point: Array | RelaxExpr | None,
    view: RelaxExpr | None = None,
) -> Array | RelaxExpr:  # fmt: skip
    """An operand in INT32 without its zero point, computed here if both are constants.

    ``view`` is the operand in another shape, if any.
    """
    name = node.inputs[index]
    values = e.array(name) if view is None else None
    if values is not None and (zero_point is None or isinstance(zero_point, np.ndarray)):
        e.reserve(node, 4 * values.size)
        wide = values.astype(np.int32)
        return wide if zero_point is None else np.asarray(wide - zero_point)
    x = e.emit(op.astype(e.value(name) if view is None else view, "int32"), "wide")
    return x if zero_point is None else e.emit(op.subtract(x, _bound(zero_point)), "centred")


def _bound(value: Array | RelaxExpr) -> RelaxExpr:
    return constant(value) if isinstance(value, np.ndarray) else value
