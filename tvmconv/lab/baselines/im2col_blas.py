"""Graphs by numpy alone: convolutions by im2col and a product of its BLAS.

The matrix is FTEngine's for NCHW, which is Caffe's: a row for each channel and kernel element, with
a value for each output pixel. A row is copied from the image; padding is not copied, because its
places always hold zeros. The weights are the other matrix as they are, and the product is the
result in NCHW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from .case import Array, Case, CaseNode, Unsupported
from .fusion import clip_bounds

Call = Callable[[], object]


class NumpyGraph:
    """A case as ``calls`` of numpy in order, with arrays for all that they read and write.

    ``values`` are by their names in ONNX, in ONNX's layout. Raises :class:`Unsupported` for an
    operator without a form here.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[Call] = []
        # the calls that copy inputs into matrices
        self.copies: list[Call] = []
        used = {name for node in case.nodes for name in node.inputs}
        self.values: dict[str, Array] = dict(case.inputs)
        self.values |= {name: case.constants[name] for name in case.constants if name in used}
        # layers of one shape share the matrix, whose zeros are at the same places
        self.matrices: dict[object, Array] = {}
        for node in case.nodes:
            if node.op not in _OPERATORS:
                raise Unsupported(f"operator {node.op}")
            _OPERATORS[node.op](self, node)

    def run(self) -> None:
        """Compute all values."""
        for call in self.calls:
            call()

    def copy(self) -> None:
        """Write the matrices of all convolutions, and compute nothing."""
        for call in self.copies:
            call()

    def add(self, function: Callable[..., object], *operands: Any, **named: Any) -> None:
        """Append a call."""
        self.calls.append(partial(function, *operands, **named))

    def operand(self, node: CaseNode, index: int = 0) -> Array:
        """An input's array."""
        return self.values[node.inputs[index]]

    def result(self, node: CaseNode) -> Array:
        """Memory for the result of a node."""
        found: Array = np.zeros(self.case.shapes[node.output], np.float32)
        return self.values.setdefault(node.output, found)


def tap_windows(
    x: Array, attrs: Mapping[str, Any], height: int, width: int
) -> Iterator[tuple[tuple[int, int], tuple[slice, slice], Array]]:
    """For each kernel element: its place, the output pixels that it meets, and the input.

    ``x`` has rows and columns last. ``attrs`` of a node are ``kernel_shape``, ``strides``,
    ``dilations`` and ``pads``. ``height`` and ``width`` are output pixels.
    """
    if len(attrs["strides"]) != 2:
        raise Unsupported(f"windows of rank {len(attrs['strides'])}")
    for tap in np.ndindex(*attrs["kernel_shape"]):
        read, written = [], []
        for axis, (size, count) in enumerate(zip(x.shape[-2:], (height, width), strict=True)):
            stride = attrs["strides"][axis]
            # input coordinate of output coordinate 0
            start = tap[axis] * attrs["dilations"][axis] - attrs["pads"][axis]
            low = max(0, -(start // stride))
            high = max(low, min(count, (size - 1 - start) // stride + 1))
            first = start + low * stride
            read.append(slice(first, first + (high - low) * stride, stride))
            written.append(slice(low, high))
        yield (tap[0], tap[1]), (written[0], written[1]), x[..., read[0], read[1]]


def _conv(graph: NumpyGraph, node: CaseNode) -> None:
    a, x, weight = node.attrs, graph.operand(node), graph.operand(node, 1)
    result = graph.result(node)
    groups, kernel, pixels = a["group"], weight.shape[2:], result.shape[2:]
    rows = weight.reshape(groups, len(weight) // groups, -1)
    for image, out in zip(x, result, strict=True):
        columns = image
        if kernel != (1, 1) or image.shape[1:] != pixels or any(a["pads"]):
            shape = (len(image), *kernel, *pixels)
            columns = graph.matrices.setdefault(
                (image.shape, shape, *(tuple(a[n]) for n in ("strides", "dilations", "pads"))),
                np.zeros(shape, np.float32),
            )
            for (r, s), (ys, xs), window in tap_windows(image, a, *pixels):
                graph.add(np.copyto, columns[:, r, s, ys, xs], window)
                graph.copies.append(graph.calls[-1])
        columns, out = (part.reshape(groups, -1, np.prod(pixels)) for part in (columns, out))
        for group, matrix in enumerate(rows):
            graph.add(np.matmul, matrix, columns[group], out=out[group])
    if node.input(2):
        graph.add(np.add, result, graph.operand(node, 2).reshape(-1, 1, 1), out=result)


def _gemm(graph: NumpyGraph, node: CaseNode) -> None:
    a, weight, result = node.attrs, graph.operand(node, 1), graph.result(node)
    if a.get("transA", 0) or a.get("alpha", 1.0) != 1.0 or a.get("beta", 1.0) != 1.0:
        raise Unsupported("Gemm with transA, alpha or beta")
    graph.add(
        np.matmul, graph.operand(node), weight.T if a.get("transB", 0) else weight, out=result
    )
    if node.input(2):
        graph.add(np.add, result, graph.operand(node, 2), out=result)


def _pool(graph: NumpyGraph, node: CaseNode) -> None:
    a, result = node.attrs, graph.result(node)
    mean = node.op == "AveragePool"
    if mean and (a.get("count_include_pad", 0) or any(a["extra"])):
        raise Unsupported("AveragePool that counts its padding, or with ceil_mode")
    pixels = result.shape[2:]
    counts: Array = np.zeros(pixels, np.float32)
    begun = False
    for _, places, window in tap_windows(graph.operand(node), a, *pixels):
        part = result[..., places[0], places[1]]
        if not begun and window.shape == result.shape:
            graph.add(np.copyto, part, window)
        else:
            if not begun:
                graph.add(result.fill, 0.0 if mean else -np.inf)
            graph.add(np.add if mean else np.maximum, part, window, out=part)
        begun = True
        counts[places] += 1
    if mean:
        graph.add(np.divide, result, counts, out=result)


def _mean(graph: NumpyGraph, node: CaseNode) -> None:
    graph.add(np.mean, graph.operand(node), axis=(2, 3), keepdims=True, out=graph.result(node))


def _clip(graph: NumpyGraph, node: CaseNode) -> None:
    low, high = (np.float32(bound) for bound in clip_bounds(graph.case, node))
    graph.add(np.clip, graph.operand(node), low, high, out=graph.result(node))


def _concat(graph: NumpyGraph, node: CaseNode) -> None:
    parts = [graph.values[name] for name in node.inputs]
    graph.add(np.concatenate, parts, axis=node.attrs["axis"], out=graph.result(node))


def _reshape(graph: NumpyGraph, node: CaseNode) -> None:
    graph.values[node.output] = graph.operand(node).reshape(graph.case.shapes[node.output])


def _softmax(graph: NumpyGraph, node: CaseNode) -> None:
    x, result, axis = graph.operand(node), graph.result(node), node.attrs.get("axis", -1)

    def run() -> None:
        np.subtract(x, x.max(axis=axis, keepdims=True), out=result)
        np.exp(result, out=result)
        np.divide(result, result.sum(axis=axis, keepdims=True), out=result)

    graph.add(run)


def _elementwise(
    function: Callable[..., object], *constants: float
) -> Callable[[NumpyGraph, CaseNode], None]:
    def call(graph: NumpyGraph, node: CaseNode) -> None:
        operands = [graph.values[name] for name in node.inputs]
        graph.add(function, *operands, *map(np.float32, constants), out=graph.result(node))

    return call


_OPERATORS: dict[str, Callable[[NumpyGraph, CaseNode], None]] = {
    "Add": _elementwise(np.add),
    "AveragePool": _pool,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _mean,
    "MatMul": _elementwise(np.matmul),
    "MaxPool": _pool,
    "Mul": _elementwise(np.multiply),
    "Relu": _elementwise(np.maximum, 0.0),
    "Reshape": _reshape,
    "Softmax": _softmax,
}
