"""Operators converted by TVM's own ONNX importer.

The importer's results are correct for every case of these operators in ``onnx.backend.test``. The
table lists the attributes that it reads. Others are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import numpy_helper

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import onnx_importer, relax
from tvmconv.tvm_api.types import RelaxExpr

_BORROWED = {
    "AffineGrid": "align_corners",
    "BitwiseAnd": "",
    "BitwiseNot": "",
    "BitwiseOr": "",
    "BitwiseXor": "",
    "Einsum": "equation",
    "GridSample": "align_corners mode padding_mode",
    "TopK": "axis k largest sorted",
    "Trilu": "upper",
}


# coordinates of a grid beyond which all points of any mode are outside of the image
_FAR = 8.0


def convert(
    e: RelaxWriter, node: OnnxNode, operands: list[RelaxExpr | None] | None = None
) -> RelaxExpr | list[RelaxExpr]:
    """Convert one node as ``tvm.relax.frontend.onnx`` does, with its inputs or other operands."""
    if operands is None:
        operands = [e.value(name) if name else None for name in node.inputs]
    attributes = {name: _stored(value) for name, value in node.attrs.items()}
    attributes["tvm_custom"] = {"name": node.name, "num_outputs": len(node.outputs)}
    result = onnx_importer.convert(e.builder, node.op, node.opset, operands, attributes)
    if isinstance(result, relax.Tuple):
        return list(result.fields)
    if isinstance(result.ty, relax.TupleType):
        parts = e.emit(result, "parts")
        return [relax.TupleGetItem(parts, i) for i in range(len(result.ty.fields))]
    return result


def _stored(value: Any) -> Any:
    """An attribute as protobuf stores it."""
    if isinstance(value, str):
        return value.encode()
    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _top_k(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    """Values and indices in order, which is also an answer to ``sorted=0``.

    TVM knows neither that nor that operator set 10 has ``k`` as an input.
    """
    k = int(node.attrs["k"]) if node.opset < 10 else e.integer(node, 1, "k")
    if k < 1:
        raise node.error(f"k={k} leaves no element")
    axis, largest = int(node.attrs.get("axis", -1)), bool(node.attrs.get("largest", 1))
    result = relax.op.topk(e.value(node.inputs[0]), k, axis, "both", largest, "int64")
    parts = e.emit(result, "parts")
    return [relax.TupleGetItem(parts, i) for i in range(2)]


def _grid_sample(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    for name, known in (
        ("mode", ("bilinear", "linear", "nearest", "bicubic", "cubic")),
        ("padding_mode", ("zeros", "border", "reflection")),
    ):
        if (value := node.attrs.get(name, known[0])) not in known:
            raise node.error(f"{name}={value!r} is unknown", f"use one of {', '.join(known)}")
    plane = e.shape(node.inputs[0])[2:]
    reflects = node.attrs.get("padding_mode") == "reflection"
    if reflects and node.attrs.get("align_corners", 0) and 1 in plane:
        raise node.error(
            f"its plane {plane} has one point along an axis, between whose corners "
            "padding_mode='reflection' with align_corners=1 has no place to reflect to",
            "use padding_mode='border'",
        )
    grid = e.emit(_near(e, node.inputs[1], reflects), "near")
    return convert(e, node, [e.value(node.inputs[0]), grid])


def _near(e: RelaxWriter, name: str, reflects: bool) -> RelaxExpr:
    """A grid with the same samples, near the image, because TVM's coordinates have 32 bits.

    A NaN becomes the image's first corner; onnxruntime's result differs by mode.
    """
    op, grid, dtype = relax.op, e.value(name), e.dtype(name)
    far = e.scalar(_FAR, dtype)
    if not reflects:
        bounded = op.minimum(e.emit(op.maximum(grid, op.negative(far)), "low"), far)
    else:
        # the image and its reflection repeat; multiples of 4 are taken off without rounding
        periods = op.floor(op.multiply(grid, e.scalar(0.25, dtype)))
        within = op.subtract(grid, op.multiply(periods, e.scalar(4, dtype)))
        is_far = op.greater(op.abs(grid), far)
        bounded = op.where(e.emit(is_far, "is_far"), e.emit(within, "within"), grid)
    bounded = e.emit(bounded, "bounded")
    return op.where(e.emit(op.isnan(bounded), "nan"), e.scalar(-1, dtype), bounded)


def _affine_grid(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    size = e.constant(node, 1, "size").reshape(-1).tolist()
    if min(size, default=1) < 1:
        raise node.error(f"size={size} makes an empty grid")
    if node.attrs.get("align_corners", 0) and 1 in size[2:]:
        raise node.error(
            f"size={size} has one point along an axis, which align_corners=1 puts on no place",
            "use align_corners=0",
        )
    return convert(e, node)


def _trilu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    """Trilu as TVM converts it; a diagonal outside the matrix is moved to its edge.

    TVM's indices have 32 bits.
    """
    if node.input(1):
        rows, columns = e.shape(node.inputs[0])[-2:]
        k = e.constant(node, 1, "k")
        near = np.clip(k, -rows, columns).astype(k.dtype)
        node = replace(node, inputs=(node.inputs[0], e.graph.add_constant(node.inputs[1], near)))
    return convert(e, node)


_CHECKED = {
    "AffineGrid": _affine_grid,
    "GridSample": _grid_sample,
    "TopK": _top_k,
    "Trilu": _trilu,
}
for _op, _attributes in _BORROWED.items():
    converts(_op, attrs=_attributes)(_CHECKED.get(_op, convert))
