"""Operators whose results have a size that depends on the data.

The last result of each is the size: the elements that exist along one axis of the others.
"""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.operators.nms import box_rows, suppressed
from tvmconv.operators.nonzero import nonzero
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
    _, classes, count = e.shape(node.inputs[1])
    most = e.shape(node.outputs[0])[0] // (e.shape(node.inputs[0])[0] * classes)
    defaults = ((2, 0, "int64"), (3, 0.0, "float32"), (4, 0.0, "float32"), (5, count, "int64"))
    limits = []
    for place, default, dtype in defaults:
        if name := node.input(place):
            limits.append(e.emit(op.reshape(e.value(name), (1,)), "limit"))
        else:
            limits.append(constant(np.full((1,), default, dtype)))
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
