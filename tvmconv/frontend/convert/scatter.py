"""Operators that write at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvmconv.frontend.convert.gather import checked_axis
from tvmconv.frontend.convert.indices import along, rows
from tvmconv.frontend.convert.reorder import zero_padded
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.shapes import unpooled_shape
from tvmconv.frontend.sizes.indexed import COUNT
from tvmconv.operators.columns_to_image import columns_to_image
from tvmconv.operators.scatter import REDUCTIONS, copied, updated_elements, updated_rows, zeros
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.program.joins import COPY
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("Scatter", "ScatterElements", attrs="axis reduction", inputs=3)
def elements(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A copy of the data with an element for each index."""
    shape = e.shape(node.inputs[0])
    axis = checked_axis(e, node)
    if e.shape(node.inputs[1]) != e.shape(node.inputs[2]):
        raise node.misfit(
            f"indices of shape {e.shape(node.inputs[1])} do not fit updates of shape "
            f"{e.shape(node.inputs[2])}"
        )
    reduction = _reduction(node)
    if 0 in e.shape(node.inputs[1]):
        return e.value(node.inputs[0])
    index = along(e, node, 1, shape[axis])
    call = e.builder.call_te(
        lambda i, u, *n: updated_elements(i, u, n, shape, axis, reduction),
        index,
        e.value(node.inputs[2]),
        *_existing(e, node, 1),
        primfunc_name_hint="scatter_elements",
        primfunc_attrs={LOOPS: True},
    )
    return op.reshape(_in_place(e, call, _copied(e, node)), shape)


@converts("ScatterND", attrs="reduction", inputs=3)
def scatter_nd(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A copy of the data with a row for each tuple of indices."""
    data, index, updates = (e.shape(name) for name in node.inputs[:3])
    axes = index[-1] if index else 0
    if not 0 < axes <= len(data) or updates != (*index[:-1], *data[axes:]):
        raise node.misfit(
            f"data of shape {data}, indices of shape {index} and updates of shape {updates} do "
            "not fit"
        )
    return _with_rows(e, node, (prod(index[:-1]), prod(data[axes:])), data[:axes])


def _with_rows(
    e: RelaxWriter, node: OnnxNode, view: tuple[int, int], sizes: tuple[int, ...]
) -> RelaxExpr:
    reduction = _reduction(node)
    shape = e.shape(node.inputs[0])
    if 0 in view:
        return e.value(node.inputs[0])
    numbers = rows(e, node, 1, sizes)
    updates = e.emit(op.reshape(e.value(node.inputs[2]), view), "updates")
    index = e.shape(node.inputs[1])
    existing = _existing(e, node, prod(index[1:-1]))
    call = _update(e, (numbers, updates, *existing), prod(shape), reduction)
    return op.reshape(_in_place(e, call, _copied(e, node)), shape)


def _update(e: RelaxWriter, operands: Sequence[RelaxExpr], size: int, reduction: str) -> RelaxExpr:
    """The call that updates rows of a flat tensor of ``size`` elements."""
    return e.builder.call_te(
        lambda i, u, *n: updated_rows(i, u, n, size, reduction),
        *operands,
        primfunc_name_hint="scatter_rows",
        primfunc_attrs={LOOPS: True},
    )


def _existing(e: RelaxWriter, node: OnnxNode, rows: int) -> list[RelaxExpr]:
    """The number of updates if it depends on the data, times ``rows`` of each."""
    if not (name := node.input(COUNT)):
        return []
    number = e.value(name)
    if rows > 1:
        number = e.emit(op.multiply(number, constant(np.full((1,), rows, np.int64))), "rows")
    return [number]


def _copied(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A flat copy of the data that nobody else reads."""
    name = node.inputs[0]
    flat = e.emit(op.reshape(e.value(name), (prod(e.shape(name)),)), "flat")
    attrs = {COPY: True, LOOPS: True, "op_pattern": OPAQUE}
    call = e.builder.call_te(copied, flat, primfunc_name_hint="copy", primfunc_attrs=attrs)
    return e.emit(call, "copy")


def _in_place(e: RelaxWriter, call: Any, data: RelaxExpr) -> RelaxExpr:
    """The call of a function whose result is the memory of ``data``."""
    function, operands = call.args
    arguments = relax.Tuple([*operands.fields, data])
    place = len(operands.fields)
    return e.emit(op.call_tir_inplace(function, arguments, [place], [data.ty]), "updated")


def _reduction(node: OnnxNode) -> str:
    reduction = str(node.attrs.get("reduction", "none"))
    if reduction not in REDUCTIONS:
        raise node.error(
            f"reduction={reduction[:80]!r} is unknown", f"use one of {', '.join(REDUCTIONS)}"
        )
    return reduction


@converts("MaxUnpool", attrs="kernel_shape pads strides", inputs=2)
def max_unpool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Zeros but for the elements at their indices, which count all elements of the result.

    ``output_shape`` adds zeros after each axis, as in ONNX's reference; in onnxruntime, the
    indices count its elements.
    """
    shape, whole = unpooled_shape(node, e.shape(node.inputs[0])), e.shape(node.outputs[0])
    if any(n > m for n, m in zip(shape, whole, strict=True)):
        raise node.misfit(f"output_shape {whole} is smaller than the unpooled {shape}")
    dtype, size, count = e.dtype(node.inputs[0]), prod(shape), prod(e.shape(node.inputs[0]))
    index = e.emit(op.reshape(along(e, node, 1, size, from_end=False), (count,)), "rows")
    updates = e.emit(op.reshape(e.value(node.inputs[0]), (count, 1)), "updates")
    call = _update(e, (index, updates), size, "none")
    blank = e.builder.call_te(
        lambda: zeros(size, dtype), primfunc_name_hint="zeros", primfunc_attrs={LOOPS: True}
    )
    result = _in_place(e, call, e.emit(blank, "zeros"))
    if shape == whole:
        return op.reshape(result, shape)
    image = e.emit(op.reshape(result, shape), "image")
    widths = [(0, m - n) for n, m in zip(shape, whole, strict=True)]
    return zero_padded(e, image, shape, widths, dtype)


@converts("Col2Im", attrs="dilations pads strides", inputs=3)
def columns(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Blocks added to images; the inverse of the columns of a convolution, but for overlaps."""
    data = e.shape(node.inputs[0])
    image, block = (
        tuple(int(n) for n in e.constant(node, i, what).reshape(-1))
        for i, what in ((1, "image_shape"), (2, "block_shape"))
    )
    rank = len(image)
    strides, dilations = node.ints("strides", (1,) * rank), node.ints("dilations", (1,) * rank)
    pads = node.ints("pads", (0,) * (2 * rank))
    lengths = [len(part) for part in (block, strides, dilations, pads)]
    if not rank or lengths != [rank, rank, rank, 2 * rank] or len(data) != 3:
        raise node.misfit(f"data of shape {data}, image {image} and block {block} do not fit")
    if min(*image, *block, *strides, *dilations) < 1 or min(pads) < 0:
        raise node.error("image, block, strides and dilations must be positive, pads not negative")
    places = tuple(
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    )
    if data[1] % prod(block) or min(places) < 1 or data[2] != prod(places):
        raise node.misfit(
            f"data of shape {data} do not hold blocks {block} at the places {places} of images "
            f"{image}"
        )
    count = data[0] * data[1] // prod(block)
    view = e.emit(op.reshape(e.value(node.inputs[0]), (count, prod(block), *places)), "blocks")
    call = e.builder.call_te(
        lambda x: columns_to_image(x, image, block, places, strides, dilations, pads[:rank]),
        view,
        primfunc_name_hint="columns_to_image",
        primfunc_attrs={LOOPS: True},
    )
    return op.reshape(e.emit(call, "images"), e.shape(node.outputs[0]))
