"""Values whose size depends on the data: operators that read or write at computed places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Extent, OnnxNode
from tvmconv.frontend.ranges import IndexRanges
from tvmconv.frontend.sizes.maker import Found, Maker, Rule, with_input

# the input that counts the regions, or the updates, that exist
COUNT = 3


def _gather(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Indices of varying data count from its first element; varying indices make varying rows."""
    graph = make.graph
    data, index = node.inputs
    axis = int(node.attrs.get("axis", 0)) % len(graph.shape(data))
    own, rows = graph.extents.get(data), graph.extents.get(index)
    node = _counted(make, node, axis)
    if own is not None and own.axis != axis:
        if rows is not None:
            raise make.refusal(index)
        added = len(graph.shape(index)) - 1 if own.axis > axis else 0
        return node, Extent(own.axis + added, own.value)
    return node, rows and Extent(axis + rows.axis, rows.value)


def _counted(make: Maker, node: OnnxNode, axis: int) -> OnnxNode:
    """The node with indices that are valid beyond their size, and count from the first element."""
    graph = make.graph
    data, index = node.inputs[:2]
    if index in graph.extents:
        index = make.filled(index, 0)
    own = graph.extents.get(data)
    if own is not None and axis in (own.axis, -1):
        node = with_input(node, make.filled(data, 0))
    if own is not None and own.axis == axis:
        index = _from_first(make, index, own.value)
    return with_input(node, index, 1)


def _from_first(make: Maker, index: str, size: str) -> str:
    """Indices that count from the first element of data of this size."""
    known = IndexRanges(make.graph).of(index)
    if known is not None and known[0] >= 0:
        return index
    shape = make.graph.shape(index)
    index = make.add("Cast", (index,), shape, "int64", to=7)
    negative = make.add("Less", (index, make.constant(0)), shape, "bool")
    moved = make.add("Add", (index, size), shape or (1,), "int64")
    if not shape:
        moved = make.add("Reshape", (moved, make.constant(np.zeros(0))), (), "int64")
    return make.add("Where", (negative, moved, index), shape, "int64")


def _gather_elements(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    graph = make.graph
    data, index = node.inputs
    axis = int(node.attrs.get("axis", 0)) % len(graph.shape(data))
    own, rows = graph.extents.get(data), graph.extents.get(index)
    if own is not None and own.axis != axis and own != rows:
        raise make.refusal(data)
    return _counted(make, node, axis), rows


def _gather_nd(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    graph = make.graph
    data, index = node.inputs
    own, rows = graph.extents.get(data), graph.extents.get(index)
    shape = graph.shape(index)
    if node.attrs.get("batch_dims", 0) or (rows is not None and rows.axis == len(shape) - 1):
        raise make.refusal(data if own else index)
    if own is not None:
        known = IndexRanges(graph).of(index)
        if own.axis >= shape[-1] or known is None or known[0] < 0:
            raise make.refusal(data)
    return _counted(make, node, -1), rows


def _scatter_elements(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    axis = int(node.attrs.get("axis", 0)) % len(infos[0].shape)
    own = make.graph.extents.get(node.inputs[0])
    node = _with_count(make, node, 1, 2)
    if own is not None and own.axis == axis:
        node = with_input(node, _from_first(make, node.inputs[1], own.value), 1)
    return node, own


def _scatter_nd(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    data, index = node.inputs[:2]
    own = make.graph.extents.get(data)
    known = IndexRanges(make.graph).of(index)
    if own and own.axis < make.graph.shape(index)[-1] and (known is None or known[0] < 0):
        raise make.refusal(data)
    return _with_count(make, node, 1, 2), own


def _regions(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Regions of images; RoiAlign has the image of each region as an input of its own."""
    if node.inputs[0] in make.graph.extents:
        raise make.refusal(node.inputs[0])
    node = _with_count(make, node, *range(len(node.inputs) - 1, 0, -1))
    return node, Extent(0, node.inputs[COUNT])


def _with_count(make: Maker, node: OnnxNode, *places: int) -> OnnxNode:
    """The node with the number of rows of inputs that vary; the first ones are indices.

    Indices that do not exist become zero, because all indices are checked.
    """
    found = [make.graph.extents.get(node.inputs[place]) for place in places]
    if not any(found):
        return node
    for place, extent in zip(places, found, strict=True):
        if extent is None or extent != found[0] or extent.axis:
            names = (node.inputs[each] for each in (place, *places))
            raise make.refusal(next(name for name in names if name in make.graph.extents))
    assert found[0] is not None
    node = with_input(node, make.filled(node.inputs[places[0]], 0), places[0])
    missing = [""] * (COUNT - len(node.inputs))
    return replace(node, inputs=(*node.inputs, *missing, found[0].value))


INDEXED: Mapping[str, Rule] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "MaxRoiPool": _regions,
    "RoiAlign": _regions,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
