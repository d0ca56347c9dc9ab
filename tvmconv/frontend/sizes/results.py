"""Operators whose results have a size that depends on the data: their largest shapes, and sizes.

The node gets one more output, the size of the others, which its kernel writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Extent, OnnxNode
from tvmconv.frontend.ranges import IndexRanges
from tvmconv.frontend.sizes.maker import Maker
from tvmconv.frontend.tensors import check_shape

_Sized = tuple[OnnxNode, list[TensorInfo]]


def sized(make: Maker, node: OnnxNode) -> _Sized | None:
    """The node and its outputs with their largest shapes; ``None`` for other operators.

    The extents of the outputs are recorded.
    """
    rule = _RULES.get(node.op)
    if rule is None:
        return None
    # exporters write a NonZero for each use of a mask
    key = (node.op, *node.inputs, *sorted((name, str(value)) for name, value in node.attrs.items()))
    same = make.graph.computed.get(key)
    if same is not None and len(node.outputs) == len(same) == 1:
        return _again(make, node, same[0])
    found = rule(make, node)
    if found is not None:
        make.graph.computed[key] = node.outputs
    for info in found[1] if found else ():
        check_shape(info.shape, info.dtype, f"node {node.name!r} ({node.op}): output {info.name!r}")
    return found


def _again(make: Maker, node: OnnxNode, same: str) -> _Sized:
    """A node that computes what another one has computed."""
    graph, name = make.graph, node.outputs[0]
    if same in graph.extents:
        graph.extents[name] = graph.extents[same]
    info = replace(graph.types[same], name=name)
    return replace(node, op="Identity", inputs=(same,), attrs={}), [info]


def _with_size(make: Maker, node: OnnxNode, place: int) -> tuple[OnnxNode, str]:
    """The node with its size as the output at ``place``, and the size's name."""
    name = make.fresh(f"{node.name or node.outputs[0]}.size")
    make.graph.types[name] = TensorInfo(name, (1,), "int64")
    outputs = (*node.outputs, *[""] * (place - len(node.outputs)), name)
    return replace(node, outputs=outputs), name


def _record(make: Maker, infos: list[TensorInfo], axis: int, value: str) -> None:
    make.graph.extents.update((info.name, Extent(axis, value)) for info in infos)


def _suppression(make: Maker, node: OnnxNode) -> _Sized:
    graph = make.graph
    if not (node.input(0) and node.input(1)):
        raise node.error("its boxes and scores must be present")
    boxes, scores = (graph.shape(name) for name in node.inputs[:2])
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or boxes[::2] != (scores[0], 4):
        raise node.misfit(f"boxes of shape {boxes} and scores of shape {scores} do not fit")
    if boxes[1] != scores[2]:
        raise node.misfit(f"{boxes[1]} boxes have {scores[2]} scores in each class")
    for place in (2, 3, 4):
        if (name := node.input(place)) and graph.shape(name) not in ((), (1,)):
            raise node.misfit(f"input {name!r} of shape {graph.shape(name)} is not one number")
    overlap = graph.constants.get(node.input(3))
    if overlap is not None and not 0 <= float(overlap.reshape(-1)[0]) <= 1:
        raise node.error(f"iou_threshold={float(overlap.reshape(-1)[0])} is not from 0 to 1")
    most = boxes[1]
    if (name := node.input(2)) in graph.constants:
        most = min(max(int(graph.constants[name].reshape(-1)[0]), 0), most)
    elif not name:
        most = 0  # the definition's default
    infos = [TensorInfo(node.outputs[0], (scores[0] * scores[1] * most, 3), "int64")]
    existing = _existing(make, node, ((0, 1), (1, 2)))
    node, value = _with_size(make, node, 1)
    if existing:
        inputs = (*node.inputs, *[""] * (5 - len(node.inputs)), existing)
        node = replace(node, inputs=inputs)
    _record(make, infos, 0, value)
    return node, infos


def _existing(make: Maker, node: OnnxNode, places: tuple[tuple[int, int], ...]) -> str:
    """The one size of inputs that vary along these axes; ``""`` if none varies.

    An input whose size is fixed has the largest one, which no other input has by chance.
    """
    graph = make.graph
    found = [graph.extents.get(node.inputs[place]) for place, _ in places]
    values = [extent.value for extent in found if extent]
    if not values:
        return ""
    for (_, axis), extent in zip(places, found, strict=True):
        if extent != Extent(axis, values[0]):
            raise make.refusal(next(n for n in node.inputs if n in graph.extents))
    return values[0]


def _nonzero(make: Maker, node: OnnxNode) -> _Sized:
    graph, name = make.graph, node.inputs[0]
    shape = graph.shape(name)
    if not shape:
        raise node.error("its input is a number without axes", "reshape it to one axis before")
    if name in graph.extents:
        node = replace(node, inputs=(make.filled(name, 0),))
    infos = [TensorInfo(node.outputs[0], (len(shape), prod(shape)), "int64")]
    node, value = _with_size(make, node, 1)
    _record(make, infos, 1, value)
    return node, infos


def _compress(make: Maker, node: OnnxNode) -> _Sized:
    graph = make.graph
    data, condition = (graph.types[name] for name in node.inputs[:2])
    flat = "axis" not in node.attrs
    axis = 0 if flat else int(node.attrs["axis"]) % len(data.shape)
    size = prod(data.shape) if flat else data.shape[axis]
    if len(condition.shape) != 1:
        raise node.misfit(f"its condition has shape {condition.shape} and not one axis")
    own, given = (graph.extents.get(name) for name in node.inputs[:2])
    if own and ((flat and len(data.shape) > 1) or own.axis != axis or own != given):
        raise make.refusal(node.inputs[0])
    if given:
        node = replace(node, inputs=(node.inputs[0], make.filled(node.inputs[1], 0)))
    most = min(size, condition.shape[0])
    shape = (most,) if flat else (*data.shape[:axis], most, *data.shape[axis + 1 :])
    infos = [TensorInfo(node.outputs[0], shape, data.dtype)]
    node, value = _with_size(make, node, 1)
    _record(make, infos, axis, value)
    return node, infos


def _unique(make: Maker, node: OnnxNode) -> _Sized:
    graph = make.graph
    data = graph.types[node.inputs[0]]
    flat = "axis" not in node.attrs
    axis = 0 if flat else int(node.attrs["axis"]) % max(len(data.shape), 1)
    count = prod(data.shape) if flat else data.shape[axis]
    extent = graph.extents.get(node.inputs[0])
    if extent and (extent.axis != axis or (flat and len(data.shape) > 1)):
        raise make.refusal(node.inputs[0])
    infos = [TensorInfo(node.outputs[0], (count,) if flat else data.shape, data.dtype)]
    infos += [TensorInfo(name, (count,), "int64") for name in node.outputs[1:] if name]
    inverse = node.outputs[2] if len(node.outputs) > 2 else ""
    node, value = _with_size(make, node, 4)
    if extent:
        node = replace(node, inputs=(node.inputs[0], extent.value))
    for info in infos:
        own = extent and Extent(0, extent.value) if info.name == inverse else Extent(0, value)
        if info is infos[0]:
            own = Extent(axis, value)
        if own:
            graph.extents[info.name] = own
    return node, infos


def _top_k(make: Maker, node: OnnxNode) -> _Sized | None:
    """A number of elements that is computed: the largest number are sorted."""
    graph, k = make.graph, node.input(1)
    if node.opset < 10 or not k or k in graph.constants or graph.types[k].dtype != "int64":
        return None
    data = graph.types[node.inputs[0]]
    axis = int(node.attrs.get("axis", -1)) % max(len(data.shape), 1)
    if not data.shape or graph.shape(k) not in ((), (1,)):
        raise node.misfit(f"k of shape {graph.shape(k)} and data of shape {data.shape} do not fit")
    most = data.shape[axis]
    highest = IndexRanges(graph).highest(k)
    if highest is not None:
        most = min(max(highest, 0), most)
    value = make.calculated("Max", make.calculated("Min", make.size(k), most), 0)
    name = node.inputs[0]
    if extent := graph.extents.get(name):
        if extent.axis != axis:
            raise make.refusal(name)
        name = make.filled(name, "lowest" if node.attrs.get("largest", 1) else "highest")
        value = make.calculated("Min", value, extent.value)
    shape = (*data.shape[:axis], most, *data.shape[axis + 1 :])
    pairs = zip(node.outputs, (data.dtype, "int64"), strict=False)
    infos = [TensorInfo(output, shape, dtype) for output, dtype in pairs if output]
    _record(make, infos, axis, value)
    return replace(node, inputs=(name, make.constant([most]))), infos


_RULES: dict[str, Callable[[Maker, OnnxNode], _Sized | None]] = {
    "Compress": _compress,
    "NonMaxSuppression": _suppression,
    "NonZero": _nonzero,
    "TopK": _top_k,
    "Unique": _unique,
}


def read_shape(make: Maker, node: OnnxNode) -> None:
    """Compute a Shape or Size of a value whose size depends on the data."""
    value, result = _shape_value(make, node), node.outputs[0]
    make.graph.types[result] = replace(make.graph.types[value], name=result)
    make.graph.nodes.append(replace(node, op="Identity", inputs=(value,), attrs={}))


def _shape_value(make: Maker, node: OnnxNode) -> str:
    graph, name = make.graph, node.inputs[0]
    shape, extent = graph.shape(name), graph.extents[name]
    if node.op == "Size":
        rest = prod(size for axis, size in enumerate(shape) if axis != extent.axis)
        total = make.calculated("Mul", extent.value, rest)
        return make.add("Reshape", (total, make.constant(np.zeros(0))), (), "int64")
    start, end, _ = slice(
        int(node.attrs.get("start", 0)), int(node.attrs.get("end", len(shape)))
    ).indices(len(shape))
    if not start <= extent.axis < end:
        return make.constant(shape[start:end])
    parts = [make.constant(shape[start : extent.axis])] if start < extent.axis else []
    parts.append(extent.value)
    if extent.axis + 1 < end:
        parts.append(make.constant(shape[extent.axis + 1 : end]))
    return make.add("Concat", parts, (end - start,), "int64", axis=0)
