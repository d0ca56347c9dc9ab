"""Padding of convolutions and poolings: explicit zeros, and what ``ceil_mode`` adds."""

from __future__ import annotations

import operator

from tvmconv.graph.ir import Graph, Node, is_plain_conv
from tvmconv.graph.rewrite.volumes import is_volume_conv

_NON_NEGATIVE = ("nn.relu", "sigmoid", "hardsigmoid")


def pad_ceilings(graph: Graph) -> None:
    """Give max poolings with ``ceil_mode`` padding after the end, which is never selected."""
    for node in graph.nodes:
        attrs = node.attrs
        if node.op != "nn.max_pool2d" or not attrs["ceil_mode"] or attrs["layout"] != "NCHW":
            continue
        if node.output.shape is None or node.args[0].shape is None:
            continue
        padding, inside = list(attrs["padding"]), True
        for axis in range(2):
            start = (node.output.dims[2 + axis] - 1) * attrs["strides"][axis] - padding[axis]
            span = (attrs["pool_size"][axis] - 1) * attrs["dilation"][axis] + 1
            size = node.args[0].dims[2 + axis]
            padding[2 + axis] = max(padding[2 + axis], start + span - size)
            inside = inside and start < size
        if inside:
            node.attrs = {**attrs, "padding": tuple(padding), "ceil_mode": False}
            node.call = None


def merge_padding(graph: Graph) -> None:
    """Let layers read the unpadded tensor; pads without readers become dead."""
    for node in graph.nodes:
        pad = node.args[0].producer if node.inputs and node.args[0] in node.inputs else None
        if pad is None or pad.op != "nn.pad" or pad.attrs.get("pad_mode") != "constant":
            continue
        width = pad.attrs["pad_width"]
        if any(width[:4]) or any(size < 0 for size in width):
            continue
        if _allows(node, pad):
            old = node.attrs["padding"]
            added = (*width[4::2], *width[5::2])
            padding = tuple(a + b for a, b in zip(old, added, strict=True))
            node.attrs = {**node.attrs, "padding": padding}
            if node.op == "nn.avg_pool2d":
                node.attrs["count_include_pad"] = True
            node.args[0] = pad.args[0]
            node.call = None


def _allows(node: Node, pad: Node) -> bool:
    value = float(pad.attrs.get("pad_value") or 0.0)
    if is_plain_conv(node) or is_volume_conv(node):
        return value == 0.0
    if node.attrs.get("layout") != "NCHW":
        return False
    if node.op == "nn.avg_pool2d":
        counted = node.attrs["count_include_pad"] or not any(node.attrs["padding"])
        return value == 0.0 and counted and not node.attrs["ceil_mode"]
    if node.op == "nn.max_pool2d":
        return not node.attrs["ceil_mode"] and _never_wins(node, pad, value)
    return False


def _never_wins(node: Node, pad: Node, value: float) -> bool:
    """Whether padding by ``value`` gives the same maxima as padding by minus infinity.

    It does for zeros around a tensor that holds no negative number, if each window also covers
    a real element.
    """
    old, (top, bottom, left, right) = node.attrs["padding"], pad.attrs["pad_width"][4:]
    sides = (old[0] + top, old[1] + left, old[2] + bottom, old[3] + right)
    windows = (*node.attrs["pool_size"], *node.attrs["pool_size"])
    if tuple(node.attrs["dilation"]) != (1, 1) or any(map(operator.ge, sides, windows)):
        return False
    if value <= -3.4028234e38:
        return True
    source = pad.args[0].producer
    if value != 0.0 or source is None:
        return False
    return source.op in _NON_NEGATIVE or (source.op == "clip" and source.attrs.get("low", -1) >= 0)
