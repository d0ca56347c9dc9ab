"""Moves networks on (N, C, W) signals to (N, C, 1, W) images, the form the kernels take.

A 1-D convolution arrives as a 2-D one between two reshapes. Element-wise operators, joins, pads
and poolings between such layers are repeated on the image. The reshapes of successive layers then
cancel. A pad of the first signal follows the reshape, so that its layer can take it.
"""

from __future__ import annotations

import numpy as np

from tvmconv.graph.ir import (
    ARITHMETIC,
    Arg,
    Graph,
    Node,
    Value,
    constant,
    made_by,
    make_conv,
    make_node,
)
from tvmconv.graph.rewrite.activations import ACTIVATIONS
from tvmconv.graph.rewrite.statistics import STANDARDIZE

_POOLS = {"nn.max_pool1d": "nn.max_pool2d", "nn.avg_pool1d": "nn.avg_pool2d"}


def raise_signals(graph: Graph) -> None:
    """Repeat operators on signals on the images that hold the same numbers, in place."""
    images: dict[Value, Value] = {}

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if node.op == "nn.conv1d" and _is_plain_conv1d(node):
            steps = _as_conv2d(node)
            images[steps[-1].output] = steps[-2].output
            mapping[node.output] = steps[-1].output
            return steps
        if _squeezes(node):
            images[node.output] = node.args[0]
            return [node]
        if (pad := _unsqueezed_pad(node)) is not None:
            steps = _pad_image(pad, node)
            mapping[node.output] = steps[-1].output
            return steps
        raised = _raise(node, images)
        if raised is None:
            return [node]
        back = make_node("reshape", [raised.output], node.output.dims)
        images[back.output] = raised.output
        mapping[node.output] = back.output
        return [raised, back]

    graph.forward(visit)


def _is_plain_conv1d(node: Node) -> bool:
    layouts = (node.attrs["data_layout"], node.attrs["kernel_layout"])
    static = node.args[0].shape is not None and node.output.shape is not None
    return layouts == ("NCW", "OIW") and static and node.const(1) is not None


def _as_conv2d(node: Node) -> list[Node]:
    """Reshape, ``nn.conv2d``, reshape."""
    (n, channels, width), weight, attrs = node.args[0].dims, node.args[1], node.attrs
    out, (left, right) = node.output.dims, attrs["padding"]
    image = make_node("reshape", [node.args[0]], (n, channels, 1, width))
    kernel = constant(np.expand_dims(weight.data, 2), weight.name, weight.dtype)
    conv = make_conv(
        image.output,
        kernel,
        (out[0], out[1], 1, out[2]),
        node.layer,
        strides=(1, *attrs["strides"]),
        padding=(0, left, 0, right),
        dilation=(1, *attrs["dilation"]),
        groups=attrs["groups"],
        dtype=node.output.dtype,
    )
    return [image, conv, make_node("reshape", [conv.output], out)]


def _squeezes(node: Node) -> bool:
    if node.op != "reshape" or node.output.shape is None or not node.args[0].is_float_map:
        return False
    n, channels, height, width = node.args[0].dims
    return height == 1 and node.output.shape == (n, channels, width)


def _unsqueezed_pad(node: Node) -> Node | None:
    """The pad of a signal that a reshape makes an image."""
    pad = made_by(node.args[0], "nn.pad") if node.op == "reshape" else None
    if pad is None or pad.args[0].shape is None or not node.output.is_float_map:
        return None
    n, channels, height, width = node.output.dims
    return pad if height == 1 and pad.output.shape == (n, channels, width) else None


def _pad_image(pad: Node, node: Node) -> list[Node]:
    """Reshape, then pad."""
    n, channels, width = pad.args[0].dims
    image = make_node("reshape", [pad.args[0]], (n, channels, 1, width))
    attrs = {**pad.attrs, "pad_width": _image_pads(pad)}
    padded = make_node("nn.pad", [image.output], node.output.dims, layer=pad.layer, attrs=attrs)
    return [image, padded]


def _image_pads(pad: Node) -> tuple[int, ...]:
    width = pad.attrs["pad_width"]
    return (*width[:4], 0, 0, *width[4:])


def _raise(node: Node, images: dict[Value, Value]) -> Node | None:
    """The node on images, if its operator is supported and all its tensors are images."""
    if len(node.outputs) != 1 or node.output.shape is None or len(node.output.shape) != 3:
        return None
    if not any(value in images for value in node.inputs):
        return None
    n, channels, width = node.output.shape
    shape, attrs = (n, channels, 1, width), dict(node.attrs)
    if node.op in (*ACTIVATIONS, STANDARDIZE):
        return make_node(node.op, [images[node.args[0]]], shape, layer=node.layer, attrs=attrs)
    if node.op in _POOLS:
        attrs |= {
            "pool_size": (1, *attrs["pool_size"]),
            "strides": (1, *attrs["strides"]),
            "dilation": (1, *attrs["dilation"]),
            "padding": (0, attrs["padding"][0], 0, attrs["padding"][1]),
            "layout": "NCHW",
            "out_layout": "NCHW",
        }
        pool = [images[node.args[0]]]
        return make_node(_POOLS[node.op], pool, shape, layer=node.layer, attrs=attrs)
    if node.op == "nn.pad":
        attrs["pad_width"] = _image_pads(node)
        pad = [images[node.args[0]]]
        return make_node(node.op, pad, shape, layer=node.layer, attrs=attrs)
    if node.op in ARITHMETIC:
        operands = [_operand(value, images) for value in node.args]
        if None not in operands:
            return make_node(node.op, operands, shape, layer=node.layer, attrs=attrs)
    if node.op == "concat" and attrs.get("axis") in (1, -2):
        joined = [images.get(value) for value in node.inputs]
        if None not in joined:
            return make_node("concat", [joined], shape, layer=node.layer, attrs={"axis": 1})
    return None


def _operand(value: Arg, images: dict[Value, Value]) -> Value | None:
    if value in images:
        return images[value]
    data = value.data
    if data is None or data.ndim > 3:
        return None
    full: tuple[int, ...] = (1,) * (3 - data.ndim) + data.shape
    return constant(np.reshape(data, (*full[:2], 1, full[2])), value.name, value.dtype)
