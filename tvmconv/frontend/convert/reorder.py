"""Operators that change the shape, or move, pick or pad elements."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.windows import disputed_size
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
# TVM writes a concatenation as one condition inside the other, an input each
_MAX_JOINED = 32
# the code of one function for all parts takes LLVM more than proportional time
_MAX_PARTS = 32
# an index, and its copy while it is made
_INDEX_BYTES = 16
_Widths = list[tuple[int, int]]
_IndexMode = Literal["edge", "reflect", "wrap"]
_INDEX_MODES: tuple[_IndexMode, ...] = ("edge", "reflect", "wrap")


@converts("Flatten", "Reshape", "Squeeze", "Unsqueeze", attrs="allowzero axes axis shape")
def reshape(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A reshape to the output's shape, which the reader has inferred."""
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    if prod(shape) != prod(target):
        problem, cause = f"{shape} cannot become {target}", disputed_size(e.graph, node)
        if cause:
            raise node.error(f"{problem}: {cause}", "give that node pads instead")
        raise node.misfit(problem)
    return op.reshape(e.value(node.inputs[0]), target)


@converts("Identity")
def identity(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The input itself."""
    return e.value(node.inputs[0])


@converts("Expand", inputs=2)
def expand(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Broadcast to the output's shape."""
    return op.broadcast_to(e.value(node.inputs[0]), e.shape(node.outputs[0]))


@converts("Tile", inputs=2)
def tile(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Repeat along each axis, as a broadcast over a new axis before each old one."""
    shape = e.shape(node.inputs[0])
    repeats = [int(r) for r in e.constant(node, 1, "repeats")]
    pairs = [(r, n) for r, n in zip(repeats, shape, strict=True)]
    x = e.emit(op.reshape(e.value(node.inputs[0]), [m for _, n in pairs for m in (1, n)]))
    wide = e.emit(op.broadcast_to(x, [m for pair in pairs for m in pair]), "wide")
    return op.reshape(wide, e.shape(node.outputs[0]))


@converts("Transpose", attrs="perm")
def transpose(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Permute the axes, by default in reverse."""
    rank = len(e.shape(node.inputs[0]))
    return op.permute_dims(e.value(node.inputs[0]), list(node.ints("perm", range(rank)[::-1])))


@converts("Concat", attrs="axis")
def concat(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Join along an axis."""
    axis = int(node.attrs.get("axis", 1)) % len(e.shape(node.inputs[0]))
    parts = [e.value(name) for name in node.inputs]
    while len(parts) > _MAX_JOINED:
        groups = [parts[i : i + _MAX_JOINED] for i in range(0, len(parts), _MAX_JOINED)]
        parts = [e.emit(op.concat(group, axis), "group") for group in groups]
    return op.concat(parts, axis)


@converts("Split", attrs="axis split num_outputs")
def split(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    """Cut along an axis into the outputs' sizes."""
    shape = e.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    sizes = [e.shape(name)[axis] for name in node.outputs]
    cuts = np.cumsum(sizes)[:-1].tolist()
    if not cuts:
        return e.value(node.inputs[0])
    if len(sizes) > _MAX_PARTS or 0 in sizes:  # TVM's split refuses equal cuts
        x, bounds = e.value(node.inputs[0]), zip([0, *cuts], [*cuts, shape[axis]], strict=True)
        return [e.emit(op.strided_slice(x, [axis], [low], [high])) for low, high in bounds]
    parts = e.emit(op.split(e.value(node.inputs[0]), cuts, axis), "split")
    return [e.emit(relax.TupleGetItem(parts, i)) for i in range(len(sizes))]


@converts("Slice", attrs="axes ends starts")
def slice_(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Slice with constant bounds; negative steps run backwards."""
    shape = e.shape(node.inputs[0])
    if node.opset < 10:
        starts, ends = node.ints("starts", ()), node.ints("ends", ())
        axes, steps = node.ints("axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, ends, axes, steps = (
            tuple(e.constant(node, i, what).tolist()) if node.input(i) else ()
            for i, what in enumerate(("starts", "ends", "axes", "steps"), 1)
        )
        axes = axes or tuple(range(len(starts)))
        steps = steps or (1,) * len(starts)
    axes = tuple(int(a) % len(shape) for a in axes)
    begin, end, strides = [], [], []
    for axis, start, stop, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise node.error("a step is 0")
        # Python's own slice arithmetic clamps exactly as ONNX asks
        low, high, _ = slice(int(start), int(stop), int(step)).indices(shape[axis])
        if not range(low, high, int(step)):
            low = high = 0  # TVM refuses an end on the wrong side of the start.
        # longer steps have the same result, but overflow in TVM
        strides.append(max(-shape[axis], min(int(step), shape[axis])) or 1)
        begin.append(low)
        # -1 would mean "the last element" again; one more step back means "up to the first"
        end.append(high if high >= 0 else -shape[axis] - 1)
    return op.strided_slice(e.value(node.inputs[0]), axes, begin, end, strides)


@converts("Pad", attrs="mode pads paddings value")
def pad(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Pad with a constant or repeated elements; negative widths crop."""
    name = node.inputs[0]
    shape, dtype = e.shape(name), e.dtype(name)
    rank = len(shape)
    if node.opset < 11:
        pads = list(node.ints("pads", ()))
        value = np.float64(node.attrs.get("value", 0.0))
    else:
        pads = [int(p) for p in e.constant(node, 1, "pads").reshape(-1)]
        value = e.constant(node, 2, "value").reshape(-1)[0] if node.input(2) else np.float64(0)
    axes = list(range(rank))
    if node.input(3):
        axes = [int(a) % rank for a in e.constant(node, 3, "axes").reshape(-1)]
    if len(pads) != 2 * len(axes):
        raise node.error(f"pads={pads} must have {2 * len(axes)} values")
    widths = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        widths[axis] = (pads[i], pads[i + len(axes)])
    x = e.value(name)
    if any(low < 0 or high < 0 for low, high in widths):
        begin = [max(-low, 0) for low, _ in widths]
        end = [n - max(-high, 0) for n, (_, high) in zip(shape, widths, strict=True)]
        x = e.emit(op.strided_slice(x, list(range(rank)), begin, end), "cropped")
        shape = tuple(b - a for a, b in zip(begin, end, strict=True))
        widths = [(max(low, 0), max(high, 0)) for low, high in widths]
    flat = [w for pair in widths for w in pair]
    mode = str(node.attrs.get("mode", "constant"))
    if mode == "constant":
        if dtype == "float32":
            return op.nn.pad(x, flat, "constant", float(value))
        return _pad_by_concat(e, x, shape, widths, value, dtype)
    length = sum(n + low + high for n, (low, high) in zip(shape, widths, strict=True) if low + high)
    e.reserve(node, _INDEX_BYTES * length)
    for known in _INDEX_MODES:
        if mode == known:
            return _pad_by_index(e, x, shape, widths, known)
    raise node.error(
        f"mode={mode!r} is not supported", "use constant, reflect, edge or wrap padding"
    )


def zero_padded(
    e: RelaxWriter, x: RelaxExpr, shape: tuple[int, ...], widths: _Widths, dtype: str
) -> RelaxExpr:
    """A tensor with zeros before and after each axis."""
    if dtype == "float32":
        return op.nn.pad(x, [w for pair in widths for w in pair], "constant", 0.0)
    return _pad_by_concat(e, x, shape, widths, np.zeros(1, dtype)[0], dtype)


def _pad_by_concat(
    e: RelaxWriter,
    x: RelaxExpr,
    shape: tuple[int, ...],
    widths: _Widths,
    value: np.generic,
    dtype: str,
) -> RelaxExpr:
    sizes = list(shape)
    for axis, (low, high) in enumerate(widths):
        parts = [x]
        for width, at in ((low, 0), (high, len(parts) + bool(low))):
            if width:
                block = (*sizes[:axis], width, *sizes[axis + 1 :])
                parts.insert(at, e.emit(op.full(block, e.scalar(value, dtype), dtype), "border"))
        sizes[axis] += low + high
        x = e.emit(op.concat(parts, axis), "padded") if len(parts) > 1 else x
    return x


def _pad_by_index(
    e: RelaxWriter, x: RelaxExpr, shape: tuple[int, ...], widths: _Widths, mode: _IndexMode
) -> RelaxExpr:
    """Padding by repeated elements as gathers along each padded axis."""
    for axis, (low, high) in enumerate(widths):
        if low or high:
            index = np.pad(np.arange(shape[axis]), (low, high), mode)
            x = e.emit(op.take(x, constant(index.astype(np.int64)), axis, mode="clip"), "padded")
    return x


@converts("DepthToSpace", attrs="blocksize mode")
def depth_to_space(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Move channel blocks into the plane."""
    n, c, h, w = e.shape(node.inputs[0])
    block = int(node.attrs.get("blocksize", 1))
    x = e.value(node.inputs[0])
    if _column_row_depth(node):
        x = e.emit(op.reshape(x, (n, c // block**2, block, block, h, w)), "blocks")
        axes = [0, 1, 4, 2, 5, 3]
    else:
        x = e.emit(op.reshape(x, (n, block, block, c // block**2, h, w)), "blocks")
        axes = [0, 3, 4, 1, 5, 2]
    moved = e.emit(op.permute_dims(x, axes), "moved")
    return op.reshape(moved, (n, c // block**2, h * block, w * block))


@converts("SpaceToDepth", attrs="blocksize mode")
def space_to_depth(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Move blocks of the plane into channels."""
    n, c, h, w = e.shape(node.inputs[0])
    block = int(node.attrs.get("blocksize", 1))
    x = e.value(node.inputs[0])
    x = e.emit(op.reshape(x, (n, c, h // block, block, w // block, block)), "blocks")
    axes = [0, 1, 3, 5, 2, 4] if _column_row_depth(node) else [0, 3, 5, 1, 2, 4]
    moved = e.emit(op.permute_dims(x, axes), "moved")
    return op.reshape(moved, (n, c * block**2, h // block, w // block))


def _column_row_depth(node: OnnxNode) -> bool:
    """Whether blocks are laid out as column, row, depth and not as depth, column, row."""
    mode = node.attrs.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise node.error(f"mode={str(mode)[:80]!r} is unknown", "use 'DCR' or 'CRD'")
    return bool(mode == "CRD")


@converts("CenterCropPad", attrs="axes", inputs=2)
def center_crop_pad(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The middle of each axis, or zeros around it; an odd element is at the end."""
    shape, result = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    begin = [max(n - m, 0) // 2 for n, m in zip(shape, result, strict=True)]
    kept = [min(n, m) for n, m in zip(shape, result, strict=True)]
    end = [low + n for low, n in zip(begin, kept, strict=True)]
    x = e.value(node.inputs[0])
    if tuple(kept) != shape:
        x = e.emit(op.strided_slice(x, list(range(len(shape))), begin, end), "cropped")
    widths = [((m - n) // 2, m - n - (m - n) // 2) for n, m in zip(kept, result, strict=True)]
    return zero_padded(e, x, tuple(kept), widths, e.dtype(node.inputs[0]))
