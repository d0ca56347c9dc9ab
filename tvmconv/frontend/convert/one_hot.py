"""Operators that mark one element along an axis, as comparisons of its index with all."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.frontend.convert.reduction import position
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("OneHot", attrs="axis", inputs=3)
def one_hot(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The value "on" at each index along a new axis, and "off" elsewhere.

    A negative index counts from the end. An index outside marks nothing.
    """
    shape = e.shape(node.inputs[0])
    depth = e.integer(node, 1, "depth")
    axis = int(node.attrs.get("axis", -1)) % (len(shape) + 1)
    e.reserve(node, 8 * max(depth, 0))
    index = e.value(node.inputs[0])
    if e.dtype(node.inputs[0]) != "int64":
        index = e.emit(op.astype(index, "int64"), "whole")
    found = e.ranges.of(node.inputs[0])
    if found is None or found[0] < 0:
        counted = op.add(index, e.scalar(depth, "int64"))
        index = e.emit(op.where(op.less(index, e.scalar(0, "int64")), counted, index), "index")
    wide = e.emit(op.expand_dims(index, axis), "wide")
    places = np.arange(depth, dtype=np.int64)
    column = constant(places.reshape(depth, *[1] * (len(shape) - axis)))
    marked = e.emit(op.equal(wide, column), "marked")
    values = e.value(node.inputs[2])
    off, on = (
        e.emit(op.reshape(op.strided_slice(values, [0], [place], [place + 1]), ()), "value")
        for place in (0, 1)
    )
    return op.where(marked, on, off)


@converts("Hardmax", attrs="axis")
def hardmax(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """1 at the first largest element along an axis, and 0 elsewhere.

    Before operator set 13, the axes from ``axis`` on count as one.
    """
    shape, dtype = e.shape(node.inputs[0]), e.dtype(node.inputs[0])
    if not shape:
        return e.scalar(1, dtype)
    x = e.value(node.inputs[0])
    axis = int(node.attrs.get("axis", -1 if node.opset >= 13 else 1))
    if node.opset < 13:
        axis = axis + len(shape) if axis < 0 else axis
        x = e.emit(op.reshape(x, (prod(shape[:axis]), prod(shape[axis:]))), "rows")
        shape, axis = (prod(shape[:axis]), prod(shape[axis:])), 1
    axis %= len(shape)
    index = e.emit(position(e, x, axis, largest=True, keep=True), "index")
    places = np.arange(shape[axis], dtype=np.int64)
    column = constant(places.reshape(-1, *[1] * (len(shape) - 1 - axis)))
    marked = e.emit(op.equal(index, column), "marked")
    result = e.emit(op.astype(marked, dtype), "ones")
    return op.reshape(result, e.shape(node.outputs[0]))
