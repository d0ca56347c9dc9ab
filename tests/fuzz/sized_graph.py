"""Runs a graph whose tensors have their largest shapes, node by node, in other runtimes.

Elements beyond a size are NaN, or the largest integer, so that they spoil a result that reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.runtimes import Arrays, results_of
from tvmconv.frontend.export import spelled_out
from tvmconv.frontend.graph import OnnxGraph, OnnxNode

# operators that write a size, and the place of that output
_SIZES = {"Compress": 1, "NonMaxSuppression": 1, "NonZero": 1, "Unique": 4}


def run_graph(graph: OnnxGraph, feeds: Arrays) -> list[Any]:
    """The outputs, cut to their sizes."""
    values: dict[str, Any] = {**graph.constants, **feeds}
    for node in graph.nodes:
        if len(node.outputs) > _SIZES.get(node.op, len(node.outputs)):
            values.update(_sized(graph, node, values))
            continue
        for proto in spelled_out(node, node.opset):
            given = {name: values[name] for name in proto.input if name}
            values.update(results_of(proto, given, _runtime(node.opset)))
    sizes = (int(values[name][0]) for name in graph.sizes)
    return [
        values[info.name]
        if info.varying is None
        else _first(values[info.name], info.varying, next(sizes))
        for info in graph.outputs
    ]


def _runtime(opset: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return onnx.ModelProto(opset_import=opsets, ir_version=10)


def _first(array: Any, axis: int, count: int) -> Any:
    return array[(slice(None),) * axis + (slice(count),)]


def _sized(graph: OnnxGraph, node: OnnxNode, values: Mapping[str, Any]) -> dict[str, Any]:
    """Results in their largest shapes, and the size."""
    given = [values[name] if name else None for name in node.inputs]
    axis = int(node.attrs.get("axis", 0)) % max(given[0].ndim, 1)
    if node.op == "Unique" and len(given) > 1:
        given = [_first(given[0], axis, int(given[1][0]))]
    elif node.op == "NonMaxSuppression" and len(given) > 5:
        count = int(given[5][0])
        given = [_first(given[0], 1, count), _first(given[1], 2, count), *given[2:5]]
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(given)]
    outputs = list(node.outputs[: _SIZES[node.op]])
    proto = helper.make_node(node.op, names, outputs, **node.attrs)
    known = {name: array for name, array in zip(names, given, strict=True) if name}
    found = results_of(proto, known, _runtime(node.opset))
    along = 1 if node.op == "NonZero" else axis if node.op in ("Compress", "Unique") else 0
    size = found[outputs[0]].shape[along]
    whole = {name: _beyond(array, graph.shape(name)) for name, array in found.items()}
    return {**whole, node.outputs[_SIZES[node.op]]: np.array([size])}


def _beyond(array: Any, shape: tuple[int, ...]) -> Any:
    """The array in a larger shape."""
    fill: Any = np.nan
    if array.dtype.kind != "f":
        fill = True if array.dtype.kind == "b" else np.iinfo(array.dtype).max
    result = np.full(shape, fill, array.dtype)
    result[tuple(slice(size) for size in array.shape)] = array
    return result
