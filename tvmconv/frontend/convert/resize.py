"""Resize and Upsample.

Sizes and scales are static, so the source coordinates of all rows and columns are constants. If
TVM's ``image.resize2d`` computes the same coordinates, it is used. Otherwise, each axis is a gather
(nearest) or a weighted sum of gathers (linear, cubic) with constant indices and weights. Sums of
integers are rounded to nearest, with ties to even, and saturated, as in ``onnx.reference``. Source:
the ONNX operator specification, Resize-19.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod

import numpy as np

from tvmconv.frontend.convert.resize_taps import (
    coordinates_of,
    cropped_coordinates,
    cubic_taps,
    in_order,
    linear_taps,
    nearest_indices,
    smooth_taps,
)
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.operators.weighted_sums import weighted_rows, weighted_sums
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
# bytes for an element of a resized axis: indices and weights
_TABLE_BYTES = {"nearest": 16, "linear": 32, "bilinear": 32, "cubic": 64}
_RESIZE2D_MODES = ("align_corners", "asymmetric", "half_pixel")
_CROP = "tf_crop_and_resize"
# a longer sum of gathers is a function of its own
_FEW_TAPS = 4


@converts("Upsample", attrs="mode scales height_scale width_scale")
def upsample(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Upsample of opset 7 to 9: a Resize with asymmetric coordinates, rounded down."""
    if node.opset < 9:
        scales = [float(s) for s in node.attrs.get("scales", ())]
    else:
        scales = [float(s) for s in e.constant(node, 1, "scales")]
    mode = str(node.attrs.get("mode", "nearest"))
    return _resize(e, node, scales, mode, "asymmetric", "floor")


@converts(
    "Resize",
    attrs="antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
    "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
)
def resize(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Resize by scales or to sizes."""
    transform = str(node.attrs.get("coordinate_transformation_mode", "half_pixel"))
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    if node.opset < 11:
        given, transform, nearest = node.input(1), "asymmetric", "floor"
    else:
        given = node.input(2)
        nearest = str(node.attrs.get("nearest_mode", "round_prefer_floor"))
    scales = [n / m if m else 1.0 for n, m in zip(target, shape, strict=True)]
    if given and e.constant(node, node.inputs.index(given), "scales").size:
        values = [float(s) for s in e.graph.constants[given].reshape(-1)]
        axes = _axes(node, len(shape))
        for axis, scale in zip(axes, values, strict=True):
            scales[axis] = scale
    elif "keep_aspect_ratio_policy" in node.attrs:
        policy = node.attrs["keep_aspect_ratio_policy"]
        if policy != "stretch":
            scales = _kept_ratio(e, node, scales, str(policy))
    mode = str(node.attrs.get("mode", "nearest"))
    if transform == _CROP:
        return _crop(e, node, scales, mode, nearest)
    return _resize(e, node, scales, mode, transform, nearest)


def _axes(node: OnnxNode, rank: int) -> list[int]:
    """The axes to which scales, sizes and regions belong, in their order."""
    return [int(axis) % rank for axis in node.ints("axes", range(rank))]


def _crop(
    e: RelaxWriter, node: OnnxNode, scales: list[float], mode: str, nearest: str
) -> RelaxExpr:
    """Resize a region, beyond the image with a constant, as TensorFlow does."""
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    roi = e.constant(node, 1, "roi").reshape(-1).astype(np.float64)
    axes = _axes(node, len(shape))
    if roi.size != 2 * len(axes) or not np.isfinite(roi).all():
        raise node.error(f"roi={roi.tolist()} must have {2 * len(axes)} finite values")
    bounds = dict.fromkeys(range(len(shape)), (0.0, 1.0))
    bounds.update((a, (roi[i], roi[i + len(axes)])) for i, a in enumerate(axes))
    e.reserve(node, 64 * sum(target))
    places = {
        axis: cropped_coordinates(
            shape[axis], target[axis], scales[axis], *bounds.get(axis, (0.0, 1.0))
        )
        for axis in range(len(shape))
        if scales[axis] != 1 or target[axis] != shape[axis] or bounds.get(axis, (0, 1)) != (0, 1)
    }
    result = _resize(e, node, scales, mode, _CROP, nearest, places)
    outside = {axis: (c < 0) | (c > shape[axis] - 1) for axis, c in places.items()}
    outside = {axis: mask for axis, mask in outside.items() if mask.any()}
    if not outside:
        return result
    e.reserve(node, prod(target[axis] for axis in outside))
    masks = (
        mask.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        for axis, mask in outside.items()
    )
    value = e.scalar(float(node.attrs.get("extrapolation_value", 0.0)), e.dtype(node.inputs[0]))
    mask = constant(reduce(np.logical_or, masks))
    return op.where(mask, value, e.emit(result, "inside"))


def _kept_ratio(e: RelaxWriter, node: OnnxNode, scales: list[float], policy: str) -> list[float]:
    """One scale for all resized axes: the smallest or the largest that the sizes ask for."""
    shape = e.shape(node.inputs[0])
    axes = _axes(node, len(shape))
    sizes = e.constant(node, 3, "sizes").reshape(-1).tolist()
    ratios = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [ratio if axis in axes else scale for axis, scale in enumerate(scales)]


def _resize(
    e: RelaxWriter,
    node: OnnxNode,
    scales: list[float],
    mode: str,
    transform: str,
    nearest: str,
    places: dict[int, Array] | None = None,
) -> RelaxExpr:
    """Resize by scales; ``places`` are coordinates along axes that are known already."""
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    if mode not in _TABLE_BYTES or len(scales) != len(shape):
        raise node.error(f"mode={mode!r} with scales={scales} is not supported", "use nearest, "
                         "linear or cubic")  # fmt: skip
    if 0 in (*shape, *target):
        raise node.error(f"scales={scales} make {list(target)} of {list(shape)}, which is empty",
                         "correct the scales")  # fmt: skip
    axes = list(zip(shape, target, scales, strict=True))
    resized = [i for i, (size, length, scale) in enumerate(axes) if (length, scale) != (size, 1.0)]
    if transform == "pytorch_half_pixel" and all(target[i] > 1 for i in resized):
        transform = "half_pixel"
    e.reserve(node, _TABLE_BYTES[mode] * sum(target[i] for i in resized))
    # onnxruntime selects the nearest element by float32 coordinates
    kind = np.float32 if mode == "nearest" else np.float64
    coordinates = places
    if coordinates is None:
        coordinates = {i: coordinates_of(node, transform, *axes[i], kind) for i in resized}
    x = e.value(node.inputs[0])
    active = [i for i, c in coordinates.items() if not np.array_equal(c, np.arange(shape[i]))]
    if mode == "nearest":
        indices = {i: nearest_indices(node, nearest, coordinates[i], shape[i]) for i in active}
        active = [i for i in active if not np.array_equal(indices[i], np.arange(shape[i]))]
        if _is_plane(e, node, active) and _repeats(indices, shape, target):
            return op.image.resize2d(
                x, target[2:], method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric", rounding_method="floor",
            )  # fmt: skip
        for axis in active:
            x = e.emit(op.take(x, constant(indices[axis]), axis, mode="clip"))
        return x
    exact = all(np.isclose(s * n, t) for s, n, t in zip(scales, shape, target, strict=True))
    # TVM divides by the size less one
    exact = exact and not (transform == "align_corners" and 1 in target[2:])
    smooth = bool(node.attrs.get("antialias", 0)) and any(scales[i] < 1 for i in active)
    exact = exact and not smooth and transform in _RESIZE2D_MODES
    if mode != "cubic" and _is_plane(e, node, active) and exact:
        return op.image.resize2d(
            x, target[2:], method="linear", coordinate_transformation_mode=transform,
            rounding_method="round",
        )  # fmt: skip
    if not active:
        return x
    dtype = e.dtype(node.inputs[0])
    if dtype == "bool":
        raise node.error(f"mode={mode!r} of bool has no mean values", "use mode='nearest'")
    inner = dtype if dtype.startswith("float") else "float64"
    x = x if inner == dtype else e.emit(op.astype(x, inner), "wide")
    for axis in in_order(active, shape, target):
        if smooth and scales[axis] < 1:
            taps = smooth_taps(e, node, coordinates[axis], scales[axis], mode)
        elif mode == "cubic":
            taps = cubic_taps(node, coordinates[axis])
        else:
            taps = linear_taps(coordinates[axis])
        x = e.emit(_weighted(e, x, axis, taps, node, shape, inner))
    return x if inner == dtype else _integers(e, x, dtype)


def _integers(e: RelaxWriter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    """The nearest integers of float64 numbers, saturated."""
    limits = np.iinfo(dtype)
    high = float(limits.max)
    if int(high) > limits.max:
        high = float(np.nextafter(high, 0))
    above = op.maximum(op.round(x), e.scalar(float(limits.min), "float64"))
    inside = op.minimum(e.emit(above, "low"), e.scalar(high, "float64"))
    return op.astype(e.emit(inside, "rounded"), dtype)


def _is_plane(e: RelaxWriter, node: OnnxNode, active: list[int]) -> bool:
    """Whether only height and width of a float NCHW tensor change."""
    name = node.inputs[0]
    return len(e.shape(name)) == 4 and e.dtype(name) == "float32" and min(active, default=0) >= 2


def _repeats(indices: Mapping[int, Array], shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether the indices of each axis repeat each element an integer number of times."""
    return all(
        target[i] % shape[i] == 0
        and np.array_equal(index, np.arange(target[i]) // (target[i] // shape[i]))
        for i, index in indices.items()
    )


def _weighted(
    e: RelaxWriter, x: RelaxExpr, axis: int, taps: list[tuple[Array, Array]], node: OnnxNode,
    shape: tuple[int, ...], dtype: str,
) -> RelaxExpr:  # fmt: skip
    """Sum of gathers along one axis, indices clamped to the edge."""
    size = shape[axis]
    if node.attrs.get("exclude_outside", 0):
        inside = [((i >= 0) & (i < size)) * w for i, w in taps]
        total = sum(inside)
        taps = [(i, w / total) for (i, _), w in zip(taps, inside, strict=True)]
    places = [np.clip(index, 0, size - 1).astype(np.int64) for index, _ in taps]
    weights = [weight.astype(dtype) for _, weight in taps]
    if len(taps) > _FEW_TAPS:
        return _many(e, x, axis, np.stack(places).astype(np.int32), np.stack(weights))
    column = [-1 if i == axis else 1 for i in range(len(shape))]
    parts = []
    for index, weight in zip(places, weights, strict=True):
        picked = op.take(x, constant(index), axis, mode="clip")
        parts.append(op.multiply(picked, constant(weight.reshape(column))))
    return reduce(op.add, parts)


def _many(e: RelaxWriter, x: RelaxExpr, axis: int, places: Array, weights: Array) -> RelaxExpr:
    """Sums of many taps by a function of this package."""
    shape = [int(size) for size in x.ty.shape]
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    view = [outer, shape[axis], inner] if inner > 1 else [outer, shape[axis]]
    tables = (places.T, weights.T) if inner > 1 else (places, weights)
    call = e.builder.call_te(
        weighted_sums if inner > 1 else weighted_rows,
        e.emit(op.reshape(x, view), "view"),
        *(constant(np.ascontiguousarray(table)) for table in tables),
        primfunc_name_hint="weighted_sums",
        primfunc_attrs={LOOPS: True, "op_pattern": OPAQUE},
    )
    shape[axis] = places.shape[1]
    return op.reshape(e.emit(call, "sums"), shape)
