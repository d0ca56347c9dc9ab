"""Operators whose results have a size that depends on the data.

The last result of each is the size: the elements that exist along one axis of the others.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.operators.compress import compressed
from tvmconv.operators.nms import box_rows, suppressed
from tvmconv.operators.nonzero import nonzero
from tvmconv.operators.unique import different_rows
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
_ATTRS = {LOOPS: True, "op_pattern": OPAQUE}


def _parts(e: RelaxWriter, call: RelaxExpr, count: int, suffix: str = "") -> list[RelaxExpr]:
    bound = e.emit(call, suffix)
    return [e.emit(relax.TupleGetItem(bound, i), f"{suffix or 'result'}{i}") for i in range(count)]


@converts("NonMaxSuppression", attrs="center_point_box", inputs=2)
def non_max_suppression(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """The boxes of each class that overlap no better one; the sixth input counts the boxes."""
    classes = e.shape(node.inputs[1])[1]
    most = e.shape(node.outputs[0])[0] // (e.shape(node.inputs[0])[0] * classes)
    limits = []
    for place, dtype in ((2, "int64"), (3, "float32"), (4, "float32"), (5, "int64")):
        if name := node.input(place):
            limits.append(e.emit(op.reshape(e.value(name), (1,)), "limit"))
        elif place < 5:
            limits.append(constant(np.zeros((1,), dtype)))
    call = e.builder.call_te(
        lambda boxes, scores, *limits: suppressed(
            boxes,
            scores,
            limits,
            most,
            thresholded=bool(node.input(4)),
            centered=bool(node.attrs.get("center_point_box", 0)),
        ),
        *map(e.value, node.inputs[:2]),
        *limits,
        primfunc_name_hint="suppress_boxes",
        primfunc_attrs=_ATTRS,
    )
    picked = _parts(e, call, 2, "picked")
    call = e.builder.call_te(
        box_rows, *picked, primfunc_name_hint="box_rows", primfunc_attrs=_ATTRS
    )
    return _parts(e, call, 2)


@converts("NonZero")
def positions(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """The index along each axis of each element that is not zero."""
    call = e.builder.call_te(
        nonzero,
        e.value(node.inputs[0]),
        primfunc_name_hint="nonzero",
        primfunc_attrs=_ATTRS,
    )
    return _parts(e, call, 2)


@converts("Compress", attrs="axis", inputs=2)
def compress(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """The elements along an axis for which a condition is true."""
    shape, flat = e.shape(node.inputs[0]), "axis" not in node.attrs
    axis = 0 if flat else int(node.attrs["axis"]) % len(shape)
    most = e.shape(node.outputs[0])[axis]
    condition = e.value(node.inputs[1])
    if most < e.shape(node.inputs[1])[0]:
        condition = e.emit(op.strided_slice(condition, [0], [0], [most]), "condition")
    size = prod(shape) if flat else shape[axis]
    before = 1 if flat else prod(shape[:axis])
    view = (before, size, prod(shape) // max(1, before * size))
    call = e.builder.call_te(
        compressed,
        e.emit(op.reshape(e.value(node.inputs[0]), view), "rows"),
        condition,
        primfunc_name_hint="compress",
        primfunc_attrs=_ATTRS,
    )
    rows, extent = _parts(e, call, 2, "chosen")
    return [e.emit(op.reshape(rows, e.shape(node.outputs[0]))), extent]


@converts("Unique", attrs="axis sorted")
def unique(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """Different elements or slices, their first places, all numbers, and counts."""
    shape, flat = e.shape(node.inputs[0]), "axis" not in node.attrs
    axis = 0 if flat else int(node.attrs["axis"]) % len(shape)
    count = prod(shape) if flat else shape[axis]
    data = e.value(node.inputs[0])
    rows = data
    if axis:
        order = [axis, *(i for i in range(len(shape)) if i != axis)]
        rows = e.emit(op.permute_dims(data, order), "moved")
    rows = e.emit(op.reshape(rows, (count, prod(shape) // count)), "rows")
    if e.dtype(node.inputs[0]) == "bool":
        rows = e.emit(op.astype(rows, "int8"), "numbers")
    existing = node.input(1)
    call = e.builder.call_te(
        lambda x, n: different_rows(x, n, bool(node.attrs.get("sorted", 1))),
        rows,
        e.value(existing) if existing else constant(np.full((1,), count, np.int64)),
        primfunc_name_hint="different_rows",
        primfunc_attrs=_ATTRS,
    )
    first, inverse, counts, extent = _parts(e, call, 4, "different")
    if flat:
        data = e.emit(op.reshape(data, (count,)), "flat")
    values = e.emit(op.take(data, first, axis, mode="clip"))
    return [values, first, inverse, counts, extent]
