"""Operators whose shape operand is computed from sizes that depend on the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Extent, OnnxNode
from tvmconv.frontend.limits import MAX_RANK
from tvmconv.frontend.sizes.lengths import Items, Lengths
from tvmconv.frontend.sizes.maker import Maker, before, with_input
from tvmconv.frontend.tensors import check_shape

# place of the operand
_PLACES = {
    "ConstantOfShape": 0, "Expand": 1, "Pad": 1, "Range": 1, "Reshape": 1, "Slice": 2, "Tile": 1,
}  # fmt: skip


def with_lengths(make: Maker, node: OnnxNode) -> OnnxNode | None:
    """The node with the largest shape as a constant; ``None`` where this node is already added.

    A node whose shape operand is constant or not known in this way is returned unchanged.
    """
    if node.op in ("Gather", "Slice") and _is_shape(make, node.inputs[0]):
        known = Lengths(make).constant_part(node)
        if known is not None:
            make.graph.constants[node.outputs[0]] = known
            info = TensorInfo(node.outputs[0], known.shape, "int64")
            make.graph.types[info.name] = info
            return None
    place = _PLACES.get(node.op)
    if place is None or not (name := node.input(place)) or name in make.graph.constants:
        return node
    if node.opset < 11 and node.op in ("Pad", "Slice"):
        return node
    lengths = Lengths(make)
    items = lengths.of(name)
    if items is None:
        return node
    if not any(isinstance(item, str) for item in items.flat):
        return with_input(node, make.constant(items), place)
    return _RULES[node.op](make, node, lengths, items.reshape(-1))


def _is_shape(make: Maker, name: str) -> bool:
    """Whether a value may be a shape that is not constant."""
    info = make.graph.types[name]
    small = len(info.shape) == 1 and info.shape[0] <= MAX_RANK
    return small and info.dtype == "int64" and name not in make.graph.constants


def unknown_shape(make: Maker) -> ModelError:
    """The error of a node whose output has no shape that is known, nor a largest one."""
    graph, node = make.graph, make.node
    name = node.input(_PLACES.get(node.op, len(node.inputs)))
    if not name or name in graph.constants:
        return node.error(
            "the shape of its output depends on data or cannot be inferred",
            "remove the operator, or cut the model before it, because shapes must be static",
        )
    return node.error(
        f"its input {name!r} is computed from the data, and gives no largest shape. Expected a "
        "constant, or one size that has a bound, such as a Min with a constant",
        before(graph, node.inputs),
    )


def _sizes(lengths: Lengths, items: Items) -> tuple[tuple[int, ...], int | None] | None:
    """The largest shape, and the axis of its one size that depends on the data."""
    sizes = [lengths.bound(item) for item in items]
    axes = [axis for axis, item in enumerate(items) if isinstance(item, str)]
    known = tuple(size for size in sizes if size is not None)
    return (known, axes[0]) if len(known) == len(sizes) and len(axes) == 1 else None


def _reshape(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode:
    found = _sizes(lengths, items)
    if found is None or node.inputs[0] not in make.graph.extents:
        return node
    sizes, axis = list(found[0]), found[1]
    assert axis is not None
    if -1 in sizes:
        rest = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = prod(make.graph.shape(node.inputs[0])) // max(rest, 1)
    # the size that varies
    sizes[axis] = -1
    return with_input(node, make.constant(sizes), 1)


def _expand(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode | None:
    """Also ConstantOfShape, as an Expand of its value."""
    found = _sizes(lengths, items)
    if found is None:
        return node
    sizes, axis = found
    graph, target = make.graph, node.outputs[0]
    assert axis is not None
    if node.op == "ConstantOfShape":
        value = np.asarray(node.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)[:1]
        data = graph.add_constant(make.fresh("extent.value"), value)
    else:
        data = node.inputs[0]
    own = graph.shape(data)
    rank = max(len(own), len(sizes))
    axis += rank - len(sizes)
    place, extent = axis - (rank - len(own)), graph.extents.get(data)
    if extent is not None and extent != Extent(place, items[axis - rank]):
        raise make.refusal(data)
    if extent is None and place >= 0 and own[place] != 1:
        return node
    shape = tuple(np.broadcast_shapes(own if extent is None else sizes, sizes))
    check_shape(shape, graph.types[data].dtype, f"node {node.name!r} ({node.op})")
    graph.types[target] = TensorInfo(target, shape, graph.types[data].dtype)
    graph.extents[target] = Extent(axis, lengths.size(items[axis - rank]))
    inputs = (data, make.constant(shape))
    graph.nodes.append(replace(node, op="Expand", inputs=inputs, attrs={}))
    return None


def _range(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode | None:
    """A range that ends at a size."""
    graph, target = make.graph, node.outputs[0]
    start, step = (lengths.integers(node, place) for place in (0, 2))
    largest = lengths.bound(items[0])
    dtype = graph.types[node.inputs[1]].dtype
    if not start or not step or step[0] < 1 or largest is None or dtype != "int64":
        return node
    count = max(-(-(largest - start[0]) // step[0]), 0)
    check_shape((count,), dtype, f"node {node.name!r} (Range)")
    value = make.after(lengths.size(items[0]), start[0])
    if step[0] > 1:
        value = make.calculated("Div", make.calculated("Add", value, step[0] - 1), step[0])
    places = make.constant(start[0] + step[0] * np.arange(count))
    graph.types[target] = TensorInfo(target, (count,), dtype)
    graph.extents[target] = Extent(0, value)
    graph.nodes.append(replace(node, op="Identity", inputs=(places,), attrs={}))
    return None


def _tile(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode | None:
    """Copies of a value of fixed size."""
    graph, name, target = make.graph, node.inputs[0], node.outputs[0]
    found, sizes = _sizes(lengths, items), graph.shape(name)
    if found is None or name in graph.extents or len(items) != len(sizes):
        return node
    repeats, axis = found
    assert axis is not None
    shape = tuple(size * count for size, count in zip(sizes, repeats, strict=True))
    info = TensorInfo(target, shape, graph.types[name].dtype)
    check_shape(shape, info.dtype, f"node {node.name!r} (Tile)")
    value = make.calculated("Mul", lengths.size(items[axis]), sizes[axis])
    graph.extents[target] = Extent(axis, value)
    graph.add_node(with_input(node, make.constant(repeats), 1), [info])
    return None


def _slice(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode | None:
    """The first elements along one axis, up to a computed end."""
    graph, name, target = make.graph, node.inputs[0], node.outputs[0]
    shape, extent = graph.shape(name), graph.extents.get(name)
    starts, axes, steps = (lengths.integers(node, place) for place in (1, 3, 4))
    if starts is None or len(starts) != 1 or axes is None or steps not in ((), (1,)):
        return node
    axis, start = (axes[0] % len(shape) if axes else 0), starts[0]
    largest = lengths.largest(items[0])
    if start < 0 or largest is None or (extent is not None and extent.axis != axis):
        return node
    end = min(largest, shape[axis])
    value = make.calculated("Min", make.size(items[0]), shape[axis])
    if extent is not None:
        same = items[0] == extent.value
        value = extent.value if same else make.calculated("Min", value, extent.value)
    result = (*shape[:axis], max(end - start, 0), *shape[axis + 1 :])
    graph.types[target] = TensorInfo(target, result, graph.types[name].dtype)
    graph.extents[target] = Extent(axis, make.after(value, start))
    ends = make.constant([end])
    inputs = (name, node.inputs[1], ends, make.constant([axis]))
    graph.nodes.append(replace(node, inputs=inputs, opset=13))
    return None


def _pad(make: Maker, node: OnnxNode, lengths: Lengths, items: Items) -> OnnxNode | None:
    """Zeros after the elements that exist, up to a fixed size."""
    graph, name = make.graph, node.inputs[0]
    shape, extent = graph.shape(name), graph.extents.get(name)
    if extent is None or node.input(3) or len(items) != 2 * len(shape):
        return node
    total = lengths.total(items[len(shape) + extent.axis], extent.value)
    places = [place for place, item in enumerate(items) if isinstance(item, str)]
    mode = node.attrs.get("mode", "constant")
    if total is None or len(places) > 1 or items[extent.axis] != 0 or mode != "constant":
        return node
    # the size never exceeds the total, or else the network would drop elements
    size = shape[extent.axis]
    fill = graph.constants.get(node.input(2)) if node.input(2) else np.zeros(1)
    if size > total or fill is None:
        return node
    filled = make.filled_by(name, fill.reshape(-1)[0])
    pads = [total - size if place in places else item for place, item in enumerate(items)]
    return replace(node, inputs=(filled, make.constant(pads), *node.inputs[2:]))


_RULES: Mapping[str, Callable[[Maker, OnnxNode, Lengths, Items], OnnxNode | None]] = {
    "ConstantOfShape": _expand,
    "Expand": _expand,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Slice": _slice,
    "Tile": _tile,
}
