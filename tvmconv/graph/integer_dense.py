"""Fully connected layers of 8-bit integers as convolutions whose window is the whole image.

``matmul(flatten(x), w)`` sums every channel and pixel of an image: a convolution of the image's
size without padding, which reads the image where it lies, in channel blocks. A vector is an image
of one pixel. What follows the product is repeated on images up to the first rounding, so that the
convolution's kernel takes it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.graph.activations import epilogue_step
from tvmconv.graph.affine import last_axis
from tvmconv.graph.ir import Graph, Node, Value, constant, make_node
from tvmconv.graph.linear import Known, LinearNodes, known_integers, linear_of
from tvmconv.graph.match import Readers


def dense_as_convolution(graph: Graph) -> None:
    """Rewrite the products of dequantised matrices by constant ones, in place."""
    readers, nodes = Readers(graph.use_counts(), graph.users()), LinearNodes()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if node.op != "matmul":
            return [node]
        known, dequantised = known_integers(node.args[1]), node.args[0].producer
        linear = linear_of(dequantised, "dequantize")
        if known is None or dequantised is None or linear is None or not _fits(node, known):
            return [node]
        made: list[Node] = []
        source = dequantised.args[0]
        image = _image(source)
        if image is None:
            made.append(make_node("reshape", [source], (*source.dims, 1, 1), dtype=source.dtype))
            image = made[-1].output
        data = nodes.dequantize(image, linear)
        weight = _weight(known, image.dims[1:])
        made += [data, weight, _convolution(node, data.output, weight.output)]
        last = _follow(node, made, readers, nodes)
        result = made[-1].output
        flat = make_node("reshape", [result], node.output.dims, dtype=result.dtype)
        mapping[last.output] = flat.output
        return [*made, flat]

    graph.forward(visit)
    graph.remove_dead()


def _fits(node: Node, known: Known) -> bool:
    """Whether the product is of two matrices, the constant one with scales of its columns."""
    shapes = (node.args[0].shape, node.output.shape)
    if any(shape is None or len(shape) != 2 for shape in shapes) or known.data.ndim != 2:
        return False
    eight = known.data.dtype.name in ("int8", "uint8")
    return eight and (known.axis == 1 or not (known.scale.ndim or known.zero_point.ndim))


def _image(vector: Value) -> Value | None:
    """The images that vectors are, flattened in the order of the channels."""
    made = vector.producer
    if made is None or made.op != "reshape":
        return None
    source: Value = made.args[0]
    return source if source.is_map and source.dims[0] == vector.dims[0] else None


def _weight(known: Known, image: tuple[int, ...]) -> Node:
    """``dequantize`` of the matrix (inputs, outputs) as (outputs, *image)."""
    data = np.ascontiguousarray(known.data.T).reshape(-1, *image)
    return replace(known, data=data, axis=0).node()


def _convolution(node: Node, data: Value, weight: Value) -> Node:
    attrs = {
        "strides": (1, 1),
        "padding": (0, 0, 0, 0),
        "dilation": (1, 1),
        "groups": 1,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
    }
    shape = (*node.output.dims, 1, 1)
    return make_node("nn.conv2d", [data, weight], shape, layer=node.layer, attrs=attrs)


def _follow(node: Node, made: list[Node], readers: Readers, nodes: LinearNodes) -> Node:
    """Repeat the bias, activations and the first rounding on images; the last of the originals."""
    while (follower := readers.only(node.output)) is not None:
        source, shape = made[-1].output, made[-1].output.dims
        linear = linear_of(follower, "quantize")
        if linear is not None:
            made.append(nodes.quantize(source, linear, follower.layer))
            return follower
        if epilogue_step(follower) is not None:
            attrs = dict(follower.attrs)
            made.append(make_node(follower.op, [source], shape, layer=follower.layer, attrs=attrs))
        else:
            bias = _bias(follower, node.output)
            if bias is None:
                break
            made += [n for n in (bias.producer,) if n is not None]
            made.append(make_node("add", [source, bias], shape, layer=follower.layer))
        node = follower
    return node


def _bias(node: Node, value: Value) -> Value | None:
    """The constant that an addition adds to the columns, as (1, outputs, 1, 1)."""
    if node.op != "add" or node.output.shape != value.shape:
        return None
    left, right = node.args
    other: Value = right if left is value else left
    outputs = value.dims[1]
    known = known_integers(other)
    if known is not None:
        if known.data.shape[-1:] != (outputs,) or known.data.size != outputs:
            return None
        args = [known.data.reshape(1, outputs, 1, 1), known.scale, known.zero_point]
        values = [constant(a.astype(t)) for a, t in zip(args, _BIAS_TYPES, strict=True)]
        if known.data.dtype != np.int32 or np.any(known.zero_point):
            return None
        return make_node("dequantize", values, (1, outputs, 1, 1), attrs={"axis": 1}).output
    vector = last_axis(other, outputs)
    return None if vector is None else constant(vector.reshape(1, outputs, 1, 1), "", "float32")


_BIAS_TYPES = ("int32", "float32", "int32")
