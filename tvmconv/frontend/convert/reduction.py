"""Reductions over axes."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.frontend.convert.indices import along
from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import relax, tirx
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op

_REDUCE = {
    "ReduceMax": op.max,
    "ReduceMean": op.mean,
    "ReduceMin": op.min,
    "ReduceProd": op.prod,
    "ReduceSum": op.sum,
}


def _axes(e: RelaxWriter, node: OnnxNode) -> list[int] | None:
    """Axes to reduce, from attribute or input; ``None`` for no reduction at all."""
    rank = len(e.shape(node.inputs[0]))
    given: list[int] = list(node.ints("axes", ()))
    if node.input(1):
        given = e.constant(node, 1, "axes").reshape(-1).tolist()
    if not given:
        return None if node.attrs.get("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(int(a) % rank for a in given)


@converts(*_REDUCE, attrs="axes keepdims noop_with_empty_axes")
def reduce(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """One pass of sum, mean, product, minimum or maximum."""
    axes = _axes(e, node)
    x = e.value(node.inputs[0])
    if axes is None or not e.shape(node.inputs[0]):
        return x
    keep = bool(node.attrs.get("keepdims", 1))
    if e.dtype(node.inputs[0]) == "bool":
        reduced = _REDUCE[node.op](op.astype(x, "int8"), axes, keepdims=keep)
        return op.astype(reduced, "bool")
    if node.op == "ReduceMean" and not e.dtype(node.inputs[0]).startswith("float"):
        return _integer_mean(e, node, axes, keep)
    return _REDUCE[node.op](x, axes, keepdims=keep)


def _integer_mean(e: RelaxWriter, node: OnnxNode, axes: list[int], keep: bool) -> RelaxExpr:
    """The mean of integers, rounded towards zero, from a sum of 64 bits.

    TVM's own makes 64-bit integers where its type says 32.
    """
    shape, dtype = e.shape(node.inputs[0]), e.dtype(node.inputs[0])
    wide = "uint64" if dtype.startswith("uint") else "int64"
    count = e.scalar(max(prod(shape[axis] for axis in axes), 1), wide)
    x = e.emit(op.astype(e.value(node.inputs[0]), wide), "wide")
    total = e.emit(op.sum(x, axes, keepdims=keep), "sum")
    if wide == "uint64":
        return op.astype(e.emit(op.floor_divide(total, count), "mean"), dtype)
    size = e.emit(op.floor_divide(op.abs(total), count), "size")
    return op.astype(e.emit(op.multiply(op.sign(total), size), "mean"), dtype)


@converts(
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    attrs="axes keepdims noop_with_empty_axes",
)  # fmt: skip
def reduce_mapped(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A function of a sum of mapped elements; exponentials are relative to the maximum.

    Roots, logarithms and exponentials of integers are computed in float64 and truncated, as in
    ONNX's definition.
    """
    axes, keep = _axes(e, node), bool(node.attrs.get("keepdims", 1))
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    axes = [] if axes is None or not e.shape(node.inputs[0]) else axes
    is_integer = not dtype.startswith("float")

    def total(value: RelaxExpr) -> RelaxExpr:
        return e.emit(op.sum(value, axes, keepdims=keep), "sum") if axes else value

    def real(value: RelaxExpr) -> RelaxExpr:
        return e.emit(op.astype(value, "float64"), "real") if is_integer else value

    def finished(value: RelaxExpr) -> RelaxExpr:
        return op.astype(e.emit(value), dtype) if is_integer else value

    if node.op == "ReduceL1":
        return total(op.abs(x))
    if node.op == "ReduceSumSquare":
        return total(op.multiply(x, x))
    if node.op == "ReduceL2":
        return finished(op.sqrt(real(total(op.multiply(x, x)))))
    if node.op == "ReduceLogSum":
        return finished(op.log(real(total(x))))
    if not axes:
        return x
    x = real(x)
    top = e.emit(op.max(x, axes, keepdims=True), "top")
    if dtype == "float32":
        # infinity less itself would be NaN
        limit = float(np.finfo(np.float32).max)
        top = e.emit(
            op.clip(top, tirx.FloatImm("float32", -limit), tirx.FloatImm("float32", limit))
        )
    spread = total(op.exp(op.subtract(x, top)))
    return finished(op.add(op.log(spread), op.reshape(top, e.shape(node.outputs[0]))))


def position(e: RelaxWriter, x: RelaxExpr, axis: int, largest: bool, *, keep: bool) -> RelaxExpr:
    """Index of the first largest or smallest element along an axis; ``keep`` keeps the axis."""
    found = e.emit((op.argmax if largest else op.argmin)(x, axis, keepdims=keep), "found")
    # TVM's reductions find nothing, -1, where all elements are the type's smallest or largest
    return op.maximum(found, e.scalar(0, "int64"))


@converts("ArgMax", "ArgMin", attrs="axis keepdims select_last_index")
def arg_extreme(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Index of the first (or last) largest or smallest element along an axis."""
    shape = e.shape(node.inputs[0])
    if not shape:
        return e.scalar(0, "int64")
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    keep = bool(node.attrs.get("keepdims", 1))
    last = bool(node.attrs.get("select_last_index", 0))
    x = e.value(node.inputs[0])
    index = position(e, op.flip(x, axis) if last else x, axis, node.op == "ArgMax", keep=keep)
    if not last:
        return index
    return op.subtract(e.scalar(shape[axis] - 1, "int64"), e.emit(index, "from_end"))


@converts("CumProd", "CumSum", attrs="exclusive reverse", inputs=2)
def cumulative(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Running sum or product; along every axis if the model computes which one is wanted."""
    rank, axis = len(e.shape(node.inputs[0])), e.array(node.inputs[1])
    if axis is not None:
        return _along(e, node, int(axis.reshape(-1)[0]) % rank)
    chosen = e.emit(op.reshape(along(e, node, 1, rank), ()), "axis")
    result = e.emit(_along(e, node, 0), "along")
    for other in range(1, rank):
        total = e.emit(_along(e, node, other), "along")
        here = e.emit(op.equal(chosen, e.scalar(other, str(chosen.ty.dtype))), "here")
        result = e.emit(op.where(here, total, result), "chosen")
    return result


def _along(e: RelaxWriter, node: OnnxNode, axis: int) -> RelaxExpr:
    exclusive = bool(node.attrs.get("exclusive", 0))
    function = op.cumprod if node.op == "CumProd" else op.cumsum
    x = e.value(node.inputs[0])
    if not node.attrs.get("reverse", 0):
        return function(x, axis, exclusive=exclusive)
    flipped = e.emit(op.flip(x, axis), "flipped")
    total = e.emit(function(flipped, axis, exclusive=exclusive), "from_end")
    return op.flip(total, axis)
