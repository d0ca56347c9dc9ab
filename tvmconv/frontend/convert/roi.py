"""Pooling of regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.frontend.convert.indices import along
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.sizes.indexed import COUNT
from tvmconv.operators.roi import RoiWindow, roi_pool
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts(
    "RoiAlign",
    attrs="coordinate_transformation_mode mode output_height output_width sampling_ratio "
    "spatial_scale",
    inputs=3,
)
def roi_align(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Means, or largest weighted elements, of samples of each bin."""
    mode = str(node.attrs.get("mode", "avg"))
    # operator set 10 has no such attribute, and does not move regions
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    transform = str(node.attrs.get("coordinate_transformation_mode", default))
    for name, value, known in (
        ("mode", mode, ("avg", "max")),
        ("coordinate_transformation_mode", transform, ("half_pixel", "output_half_pixel")),
    ):
        if value not in known:
            raise node.error(f"{name}={value!r} is unknown", f"use {' or '.join(known)}")
    ratio = int(node.attrs.get("sampling_ratio", 0))
    images, _, height, width = e.shape(node.inputs[0])
    regions = e.shape(node.inputs[1])
    if e.shape(node.inputs[2]) != regions[:1] or regions[1:] != (4,):
        raise node.misfit(f"rois {regions} and batch_indices {e.shape(node.inputs[2])} do not fit")
    window = RoiWindow(
        (height, width),
        _bins(e, node),
        float(node.attrs.get("spatial_scale", 1.0)),
        is_max=mode == "max",
        ratio=max(ratio, 0),
        half_pixel=transform == "half_pixel",
    )
    index = along(e, node, 2, images, from_end=False)
    return _pool(e, node, e.value(node.inputs[1]), index, window)


@converts("MaxRoiPool", attrs="pooled_shape spatial_scale", inputs=2)
def max_roi_pool(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The largest pixel of each bin; the first number of a region is its image."""
    _, _, height, width = e.shape(node.inputs[0])
    regions = e.shape(node.inputs[1])
    if len(regions) != 2 or regions[1] != 5:
        raise node.misfit(f"rois have shape {regions}, not (regions, 5)")
    rois = e.value(node.inputs[1])
    parts = e.emit(op.split(rois, [1], 1), "parts")
    image, boxes = (e.emit(relax.TupleGetItem(parts, i), name) for i, name in enumerate("nb"))
    image = e.emit(op.reshape(image, regions[:1]), "image")
    window = RoiWindow(
        (height, width),
        _bins(e, node),
        float(node.attrs.get("spatial_scale", 1.0)),
        is_max=True,
        aligned=False,
    )
    return _pool(e, node, boxes, image, window)


def _bins(e: RelaxWriter, node: OnnxNode) -> tuple[int, int]:
    rows, columns = e.shape(node.outputs[0])[2:]
    return rows, columns


def _pool(e: RelaxWriter, node: OnnxNode, rois: Any, images: Any, window: RoiWindow) -> RelaxExpr:
    count, channels, height, width = e.shape(node.inputs[0])
    if min(height, width, channels, count, *window.bins) < 1:
        raise node.error(f"data of shape {e.shape(node.inputs[0])} or {window.bins} bins are empty")
    existing = node.input(COUNT)
    regions = e.shape(node.outputs[0])[:1]
    x = e.value(node.inputs[0])
    shape: tuple[int, ...] = (count, channels * height * width)
    if not window.reads_planes(regions[0], count):
        x = e.emit(op.permute_dims(x, [0, 2, 3, 1]), "pixels")
        shape = (count, height * width, channels)
    x = e.emit(op.reshape(x, shape), "pixels")
    call = e.builder.call_te(
        lambda data, boxes, index, number: roi_pool(data, boxes, index, number, window),
        x,
        rois,
        images,
        e.value(existing) if existing else constant(np.asarray(regions, np.int64)),
        primfunc_name_hint="roi_pool",
        primfunc_attrs={LOOPS: 1, "op_pattern": OPAQUE},
    )
    return op.reshape(e.emit(call, "pooled"), e.shape(node.outputs[0]))
