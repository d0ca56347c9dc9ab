"""Removes pairs of transpositions to (N, H, W, C) and back.

Networks such as ConvNeXt transpose to (N, H, W, C), normalize and mix channels, and transpose back.
No operator needs that order. Each operator in between is repeated on (N, C, H, W). A product with a
constant matrix becomes a 1x1 convolution with an epilogue.
"""

from __future__ import annotations

import numpy as np

from tvmconv.graph.ir import ARITHMETIC, Arg, Graph, Node, Value, constant, make_node, pixelwise
from tvmconv.graph.rewrite.activations import ACTIVATIONS
from tvmconv.graph.rewrite.statistics import STANDARDIZE
from tvmconv.graph.rewrite.tokens import FIRST, LAST, axes_of

_UNARY = (*ACTIVATIONS, "negative", "abs", "square")


def move_channels(graph: Graph) -> None:
    """Repeat operators on transposed maps on the original maps, in place."""
    images: dict[Value, Value] = {}

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if len(node.outputs) != 1 or not node.output.is_float_map or not node.inputs:
            return [node]
        source = node.args[0]
        if node.op == "permute_dims":
            axes = axes_of(node)
            if axes == LAST and not source.is_const:
                images[node.output] = source
            elif axes == FIRST and source in images:
                mapping[node.output] = images[source]
                return []
            return [node]
        moved = _moved(node, images)
        if moved is None:
            return [node]
        back = make_node("permute_dims", [moved.output], node.output.dims, attrs={"axes": LAST})
        images[back.output] = moved.output
        mapping[node.output] = back.output
        return [moved, back]

    graph.forward(visit)


def _moved(node: Node, images: dict[Value, Value]) -> Node | None:
    """The node on (N, C, H, W), if its operator is supported and reads such images."""
    if not any(value in images for value in node.inputs):
        return None
    n, height, width, channels = node.output.dims
    shape = (n, channels, height, width)
    if node.op in ARITHMETIC:
        operands = [_operand(value, images) for value in node.args]
        return None if None in operands else _made(node, operands, shape)
    image = images.get(node.inputs[0])
    if image is None:
        return None
    if node.op in _UNARY:
        return _made(node, [image], shape)
    if node.op == STANDARDIZE and node.attrs.get("rows") == n * height * width:
        return _made(node, [image], shape, kind="channels")
    if node.op == "matmul" and node.args[1].is_const and len(node.args[1].dims) == 2:
        weight = node.args[1]
        kernel = constant(weight.data.T[:, :, None, None], weight.name, weight.dtype)
        return pixelwise(node, image, kernel)
    if node.op in ("mean", "max") and _spatial(node):
        return _made(node, [image], shape, axis=(2, 3))
    return None


def _made(node: Node, args: list[Arg], shape: tuple[int, ...], **attrs: object) -> Node:
    return make_node(node.op, args, shape, layer=node.layer, attrs={**node.attrs, **attrs})


def _operand(value: Value, images: dict[Value, Value]) -> Value | None:
    if value in images:
        return images[value]
    data = value.data
    if data is None or data.ndim > 4:
        return None
    full = data.reshape((1,) * (4 - data.ndim) + data.shape)
    return constant(np.transpose(full, FIRST), value.name, value.dtype)


def _spatial(node: Node) -> bool:
    """Whether a node reduces height and width of (N, H, W, C), which stay as axes of size 1."""
    axes = [int(axis) % 4 for axis in node.attrs.get("axis") or ()]
    return bool(node.attrs.get("keepdims")) and sorted(axes) == [1, 2]
