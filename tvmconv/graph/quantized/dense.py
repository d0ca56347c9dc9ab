"""INT8 fully connected layers as convolutions whose window is the whole image.

``matmul(flatten(x), w)`` is a convolution with a kernel of the image's size and without padding. It
reads the image in channel blocks, without flattening it. A vector is an image of one pixel.
Operators after the product, up to the first rounding, are repeated on images. They then become part
of the convolution's kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.graph.ir import Graph, Node, Value, constant, make_node, pixelwise
from tvmconv.graph.match import IN_FLOAT, Readers
from tvmconv.graph.quantized.scales import (
    EIGHT_BITS,
    LinearNodes,
    dequantize_node,
    known_integers,
    linear_of,
)
from tvmconv.graph.rewrite.activations import epilogue_step
from tvmconv.graph.rewrite.affine import last_axis


def dense_as_convolution(graph: Graph) -> None:
    """Rewrite products of dequantized matrices with constant matrices, in place."""
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
        rows = prod(source.dims[:-1])
        if image is None:
            made += rows_as_pixels(source)
            image = made[-1].output
        data = nodes.dequantize(image, linear)
        inner = image.dims[2:] if image.dims[0] == rows else (1, 1)
        weight = _weight(known, (image.dims[1], *inner))
        made += [data, weight, pixelwise(node, data.output, weight.output)]
        last = _follow(node, made, readers, nodes)
        made += pixels_as_rows(made[-1].output, node.output.dims)
        mapping[last.output] = made[-1].output
        return made

    graph.forward(visit)
    graph.remove_dead()


def note_wide_products(graph: Graph) -> None:
    """Set the attribute :data:`IN_FLOAT` of products of quantized matrices that stay in FP32."""
    for node in graph.nodes:
        known = known_integers(node.args[1]) if node.op == "matmul" else None
        made = node.args[0].producer if known is not None else None
        if known is None or made is None or made.op != "dequantize":
            continue
        for name, dtype in (("data", made.args[0].dtype), ("weight", known.data.dtype.name)):
            if dtype not in EIGHT_BITS:
                node.attrs.setdefault(IN_FLOAT, f"its {name} is {dtype}, kernels multiply 8 bits")


def rows_as_pixels(matrix: Value) -> list[Node]:
    """Rows of one or several matrices as the pixels of one image (1, columns, 1, rows).

    Pixels, but not images, share the weights of a register tile.
    """
    rows, columns = prod(matrix.dims[:-1]), matrix.dims[-1]
    made = [make_node("reshape", [matrix], (rows, columns, 1, 1), dtype=matrix.dtype)]
    if rows > 1:
        shape, attrs = (1, columns, 1, rows), {"axes": (2, 1, 3, 0)}
        made.append(
            make_node("permute_dims", [made[0].output], shape, dtype=matrix.dtype, attrs=attrs)
        )
    return made


def pixels_as_rows(image: Value, shape: tuple[int, ...]) -> list[Node]:
    """The inverse of :func:`rows_as_pixels`, in a given shape."""
    made: list[Node] = []
    _, columns, _, rows = image.dims
    if rows > 1:
        attrs = {"axes": (3, 1, 0, 2)}
        dims = (rows, columns, 1, 1)
        made.append(make_node("permute_dims", [image], dims, dtype=image.dtype, attrs=attrs))
        image = made[0].output
    return [*made, make_node("reshape", [image], shape, dtype=image.dtype)]


def _fits(node: Node, known: QuantizedConstant) -> bool:
    """Whether the right matrix is a constant with scales of its columns."""
    shapes = (node.args[0].shape, node.output.shape)
    if any(shape is None or len(shape) < 2 for shape in shapes) or known.data.ndim != 2:
        return False
    if not all(node.args[0].dims):
        return False
    eight = known.data.dtype.name in ("int8", "uint8")
    return eight and (known.axis == 1 or not (known.scale.ndim or known.zero_point.ndim))


def _image(vector: Value) -> Value | None:
    """The images of which vectors are a flattened form, if any."""
    made = vector.producer
    if made is None or made.op != "reshape":
        return None
    source: Value = made.args[0]
    if len(vector.dims) != 2:
        return None
    return source if source.is_map and source.dims[0] == vector.dims[0] else None


def _weight(known: QuantizedConstant, image: tuple[int, ...]) -> Node:
    """``dequantize`` of the matrix (inputs, outputs) as (outputs, *image)."""
    data = np.ascontiguousarray(known.data.T).reshape(-1, *image)
    return dequantize_node(replace(known, data=data, axis=0))


def _follow(node: Node, made: list[Node], readers: Readers, nodes: LinearNodes) -> Node:
    """Repeat bias, activations and the first rounding on images; return the last original."""
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
    other, outputs = node.other(value), value.dims[-1]
    known = known_integers(other)
    if known is not None:
        if known.data.shape[-1:] != (outputs,) or known.data.size != outputs:
            return None
        if known.data.dtype != np.int32 or np.any(known.zero_point):
            return None
        return dequantize_node(known.reshaped((1, outputs, 1, 1), 1)).output
    vector = last_axis(other, outputs)
    return None if vector is None else constant(vector.reshape(1, outputs, 1, 1), "", "float32")
