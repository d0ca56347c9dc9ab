"""Values whose size depends on the data: operators that move elements, and products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Extent, OnnxNode
from tvmconv.frontend.sizes.indexed import INDEXED
from tvmconv.frontend.sizes.maker import Found, Maker, Rule, only, with_input


def _reshape(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """The axis that varies must have as many elements before it as in the operand."""
    name, extent = only(make, node, 0)
    shape, target = make.graph.shape(name), infos[0].shape
    if node.op in ("Squeeze", "Unsqueeze"):
        return node, _with_axes(make, node, target)
    size, before = shape[extent.axis], prod(shape[: extent.axis])
    inferred = _inferred_axis(make, node, extent.axis, len(shape))
    candidates = range(len(target)) if inferred is None else (inferred,)
    places = [axis for axis in candidates if prod(target[:axis]) == before]
    for axis in places:
        if target[axis] == size:
            return node, Extent(axis, extent.value)
    for axis in places if size else ():
        if target[axis] and target[axis] % size == 0:
            return node, Extent(axis, make.calculated("Mul", extent.value, target[axis] // size))
        if target[axis] and size % target[axis] == 0:
            return node, Extent(axis, make.calculated("Div", extent.value, size // target[axis]))
    raise make.refusal(name)


def _inferred_axis(make: Maker, node: OnnxNode, varying: int, rank: int) -> int | None:
    """The axis of the result that varies if an axis of the operand does; None if all are given."""
    if node.op == "Flatten":
        first = int(node.attrs.get("axis", 1))
        return int(varying >= (first + rank if first < 0 else first))
    target = make.graph.constants.get(node.input(1))
    sizes = [] if target is None else [int(size) for size in target.reshape(-1)]
    if sizes[varying : varying + 1] == [0] and not node.attrs.get("allowzero", 0):
        return varying
    return sizes.index(-1) if -1 in sizes else None


def _with_axes(make: Maker, node: OnnxNode, target: tuple[int, ...]) -> Extent:
    """The extent after axes of size 1 are added or removed."""
    name = node.inputs[0]
    shape, extent = make.graph.shape(name), make.graph.extents[name]
    rank = max(len(shape), len(target))
    if (given := node.input(1)) in make.graph.constants:
        axes = {int(axis) % rank for axis in make.graph.constants[given].reshape(-1)}
    elif "axes" in node.attrs:
        axes = {axis % rank for axis in node.ints("axes", ())}
    else:
        axes = {axis for axis, size in enumerate(shape) if size == 1}
    if node.op == "Unsqueeze":
        return Extent([a for a in range(rank) if a not in axes][extent.axis], extent.value)
    if extent.axis in axes:
        raise make.refusal(name)
    return Extent(extent.axis - sum(axis < extent.axis for axis in axes), extent.value)


def _transpose(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    order = node.ints("perm", range(len(make.graph.shape(name)))[::-1])
    return node, Extent(order.index(extent.axis), extent.value)


def _concat(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    graph, shape = make.graph, infos[0].shape
    axis = int(node.attrs.get("axis", 1)) % len(shape)
    # an empty part has no elements that may exist
    parts = [name for name in node.inputs if graph.shape(name)[axis]]
    node = replace(node, inputs=tuple(parts))
    given = [graph.extents.get(name) for name in node.inputs]
    first = next(extent for extent in given if extent is not None)
    if first.axis != axis:
        for name, extent in zip(node.inputs, given, strict=True):
            if extent != first:
                raise make.refusal(
                    name if extent else next(n for n in node.inputs if n in graph.extents)
                )
        return node, first
    if any(extent is not None and extent.axis != axis for extent in given):
        raise make.refusal(node.inputs[given.index(first)])
    return _joined(make, node, infos[0], axis)


def _joined(make: Maker, node: OnnxNode, info: TensorInfo, axis: int) -> Found:
    """The parts one after another; a gather leaves out what does not exist."""
    graph = make.graph
    largest = tuple(graph.shape(name)[axis] for name in node.inputs)
    extents = [graph.extents.get(name) for name in node.inputs]
    # detectors join boxes, scores and classes of the same sizes
    key = ("joined", largest, *(extent and extent.value for extent in extents))
    if key not in graph.computed:
        sizes = [
            extent.value if extent else make.constant([size])
            for extent, size in zip(extents, largest, strict=True)
        ]
        graph.computed[key] = _joined_rows(make, sizes, largest)
    rows, end = graph.computed[key]
    whole = make.add("Concat", node.inputs, info.shape, info.dtype, axis=axis)
    gather = replace(node, op="Gather", inputs=(whole, rows), attrs={"axis": axis}, opset=13)
    return gather, Extent(axis, end)


def _joined_rows(make: Maker, sizes: list[str], largest: tuple[int, ...]) -> tuple[str, str]:
    """The rows that exist in parts of the largest sizes, and their number."""
    count, total = len(sizes), sum(largest)
    along = make.add("Concat", sizes, (count,), "int64", axis=0)
    ends = make.add("CumSum", (along, make.constant(0)), (count,), "int64")
    # how much further a part begins among the largest parts
    first = make.add("Sub", (ends, along), (count,), "int64")
    starts = make.constant(np.cumsum([0, *largest[:-1]]))
    shifts = make.add("Sub", (starts, first), (count,), "int64")
    # a row is in the part whose number is the number of parts that end before it
    places = np.arange(total)
    ended = (make.constant(places[:, None]), ends)
    after = make.add("GreaterOrEqual", ended, (total, count), "bool")
    ones = make.add("Cast", (after,), (total, count), "int64", to=7)
    part = make.add("ReduceSum", (ones, make.constant([1])), (total,), "int64", keepdims=0)
    part = make.add("Min", (part, make.constant([count - 1])), (total,), "int64")
    shift = make.add("Gather", (shifts, part), (total,), "int64", axis=0)
    rows = make.add("Add", (make.constant(places), shift), (total,), "int64")
    limits = (make.constant(0), make.constant(max(total - 1, 0)))
    rows = make.add("Clip", (rows, *limits), (total,), "int64")
    last = (make.constant([count - 1]), make.constant([count]))
    return rows, make.add("Slice", (ends, *last), (1,), "int64")


def _split(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    if int(node.attrs.get("axis", 0)) % len(make.graph.shape(name)) == extent.axis:
        raise make.refusal(name)
    return node, extent


def _slice(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Along the axis, a start and an end that count from the first element."""
    name, extent = only(make, node, 0)
    shape = make.graph.shape(name)
    if node.opset < 10:
        lists = [node.ints(key, ()) for key in ("starts", "ends", "axes")]
    else:
        lists = [_integers(make, node, place) for place in (1, 2, 3)]
    starts, ends, axes = lists
    axes = tuple(axis % len(shape) for axis in axes) or tuple(range(len(starts)))
    if extent.axis not in axes:
        return node, extent
    place = axes.index(extent.axis)
    steps = _integers(make, node, 4) or (1,) * len(axes)
    start, end = starts[place], min(ends[place], shape[extent.axis])
    if steps[place] != 1 or start < 0 or end < 0:
        raise make.refusal(name)
    value = extent.value
    if end < shape[extent.axis]:
        value = make.calculated("Min", value, end)
    return node, Extent(extent.axis, make.after(value, start))


def _integers(make: Maker, node: OnnxNode, place: int) -> tuple[int, ...]:
    name = node.input(place)
    if not name:
        return ()
    if name not in make.graph.constants:
        raise make.refusal(node.inputs[0])
    return tuple(int(value) for value in make.graph.constants[name].reshape(-1))


def _product(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Rows of the first operand, columns of the second, or matrices of either."""
    name, extent = only(make, node, 0, 1)
    rank, place = len(make.graph.shape(name)), node.inputs.index(name)
    if rank < 2 or extent.axis == rank - 1 - place or len(infos[0].shape) < 2:
        raise make.refusal(name)
    axis = extent.axis + len(infos[0].shape) - rank
    if infos[0].shape[axis] != make.graph.shape(name)[extent.axis] or extent.axis < rank - 2:
        raise make.refusal(name)
    return node, Extent(axis, extent.value)


def _gemm(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    bias = make.graph.shape(node.input(2)) if node.input(2) else ()
    if extent.axis != int(node.attrs.get("transA", 0)) or (len(bias) == 2 and bias[0] != 1):
        raise make.refusal(name)
    return node, Extent(0, extent.value)


def _one_hot(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    _, extent = only(make, node, 0)
    axis = int(node.attrs.get("axis", -1)) % len(infos[0].shape)
    return node, Extent(extent.axis + (axis <= extent.axis), extent.value)


def _top_k(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    if int(node.attrs.get("axis", -1)) % len(make.graph.shape(name)) != extent.axis:
        return node, extent
    largest = int(node.attrs.get("largest", 1))
    return with_input(node, make.filled(name, "lowest" if largest else "highest")), None


def _running_total(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    if node.attrs.get("reverse", 0):
        node = with_input(node, make.filled(name, int(node.op == "CumProd")))
    return node, extent


def _padded(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Pad, Expand, Tile, Resize and layer normalization, where they leave the axis alone."""
    name, extent = only(make, node, 0)
    shape, target = make.graph.shape(name), infos[0].shape
    axis = extent.axis + len(target) - len(shape)
    if node.op == "LayerNormalization":
        changed = int(node.attrs.get("axis", -1)) % len(shape) <= extent.axis
    else:
        changed = target[axis] != shape[extent.axis]
    if node.op == "Resize":
        crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        changed = changed or crops
    if node.op == "Pad":
        changed = changed or _pads(make, node, extent.axis, len(shape))
    if changed:
        raise make.refusal(name)
    return node, Extent(axis, extent.value)


def _pads(make: Maker, node: OnnxNode, axis: int, rank: int) -> bool:
    pads = node.ints("pads", ()) if node.opset < 11 else _integers(make, node, 1)
    axes = [a % rank for a in _integers(make, node, 3)] or list(range(rank))
    return axis in axes and any(pads[axes.index(axis) :: len(axes)])


MOVES: Mapping[str, Rule] = {
    **INDEXED,
    "Concat": _concat,
    "CumProd": _running_total,
    "CumSum": _running_total,
    "Expand": _padded,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "LayerNormalization": _padded,
    "MatMul": _product,
    "OneHot": _one_hot,
    "Pad": _padded,
    "Resize": _padded,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _reshape,
    "Tile": _padded,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
    "Upsample": _padded,
}
