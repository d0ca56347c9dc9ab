"""Moves 1x1 convolutions before the resizing of their input, where there are fewer pixels.

A resize computes the same weighted sums of pixels in every channel, a 1x1 convolution the same
weighted sums of channels in every pixel. So they commute. Of a convolution of joined channels, as
in the head of a segmentation network, each resized part becomes a convolution of its own. The
results are resized and added. The convolution that adds the bias keeps the layer's name, the others
are NAME.0, NAME.1, ...
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.graph.blockable import is_resized_by_axes
from tvmconv.graph.ir import Array, Graph, Node, Value, constant, is_plain_conv, made_by, make_node

# A pixel saves half of the products of its channels and its outputs, or more. The sums of the
# outputs are written and read once more. From so many channels on, the products take longer.
_FEWEST_CHANNELS = 64
_LEAST_GROWTH = 2


def convolve_before_resize(graph: Graph) -> None:
    """Rewrite 1x1 convolutions of resized images in place."""
    users, counts = graph.users(), graph.use_counts()

    def only_mixed(value: Value) -> bool:
        readers = users.get(value, [])
        return counts[value] == len(readers) and all(map(_is_pixelwise, readers))

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if not _is_pixelwise(node) or not only_mixed(node.args[0]):
            return [node]
        joined = made_by(node.args[0], "concat")
        parts = [node.args[0]]
        if joined is not None and joined.attrs["axis"] in (1, -3):
            parts = joined.inputs
        if not all(part.is_float_map for part in parts):
            return [node]
        alone = [part for part in parts if part is node.args[0] or counts[part] == 1]
        resized = [part for part in alone if _grows(part)]
        if not resized:
            return [node]
        steps = _divided(node, parts, resized)
        mapping[node.output] = steps[-1].output
        return steps

    graph.forward(visit)
    graph.remove_dead()


def _is_pixelwise(node: Node) -> bool:
    """A dense 1x1 float32 convolution with constant weights that reads every pixel."""
    if not is_plain_conv(node) or node.attrs.get("depth"):
        return False
    weight, attrs = node.const(1), node.attrs
    if weight is None or weight.shape[2:] != (1, 1) or attrs["groups"] != 1:
        return False
    maps = node.args[0].is_float_map and node.output.is_float_map
    return maps and not any(attrs["padding"]) and set(attrs["strides"]) == {1}


def _grows(value: Value) -> bool:
    """Whether a value is made by a resize that pays after the convolution."""
    resize = made_by(value, "image.resize2d")
    if resize is None or not is_resized_by_axes(resize) or not resize.args[0].is_float_map:
        return False
    pixels, before = prod(value.dims[2:]), prod(resize.args[0].dims[2:])
    return value.dims[1] >= _FEWEST_CHANNELS and pixels >= _LEAST_GROWTH * before


def _divided(node: Node, parts: list[Value], resized: list[Value]) -> list[Node]:
    """The nodes that replace a convolution; the last one computes its result."""
    weight, bias = node.args[1], node.args[2:]
    ends = np.cumsum([part.dims[1] for part in parts])
    columns = list(zip(parts, np.split(weight.data, ends[:-1], 1), strict=True))
    moved = [(part, data) for part, data in columns if part in resized]
    rest = [(part, data) for part, data in columns if part not in resized]
    steps: list[Node] = []
    total: Value | None = None
    for index, (part, data) in enumerate(moved):
        resize = part.producer
        assert resize is not None
        # the weights of a resize add up to 1, so that it keeps a bias
        has_bias = not rest and index == 0
        name = node.layer if has_bias else f"{node.layer}.{index}"
        steps.append(_mixed(resize.args[0], data, node, name, bias if has_bias else []))
        operands = [steps[-1].output, *resize.args[1:]]
        again = make_node(
            resize.op, operands, node.output.dims, layer=resize.layer, attrs=resize.attrs
        )
        steps.append(again)
        if total is not None:
            steps.append(make_node("add", [total, again.output], node.output.dims))
        total = steps[-1].output
    if rest:
        sources = [part for part, _ in rest]
        source, kept = sources[0], np.concatenate([data for _, data in rest], 1)
        if len(rest) > 1:
            shape = (source.dims[0], kept.shape[1], *source.dims[2:])
            steps.append(make_node("concat", [sources], shape, attrs={"axis": 1}))
            source = steps[-1].output
        steps.append(_mixed(source, kept, node, node.layer, bias))
        steps.append(make_node("add", [steps[-1].output, total], node.output.dims))
    return steps


def _mixed(data: Value, weight: Array, node: Node, name: str, bias: list[Value]) -> Node:
    """A 1x1 convolution of some channels, with the outputs of ``node``."""
    kernel = constant(weight, f"{node.args[1].name}.{name}", node.args[1].dtype)
    shape = (data.dims[0], node.output.dims[1], *data.dims[2:])
    return make_node(node.op, [data, kernel, *bias], shape, layer=name, attrs=dict(node.attrs))
