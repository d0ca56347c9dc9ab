"""Recognizes layers that the importer writes as several operators.

As one node each, these layers can stay in the channel-blocked layout:

``channel_shuffle``
    (N, C, H, W) with channels transposed as a (``groups``, C/groups) matrix.
``depth_to_space``
    Output channel ``k = g * inner + o`` at (y, x) reads input channel
    ``g * bh * bw * stride + (y % bh * bw + x % bw) * stride + o`` at (y // bh, x // bw), where
    (bh, bw) is ``block`` and (y, x) count from the corner ``crop``. ONNX's DCR mode has inner =
    stride = K, its CRD mode inner = stride = 1.
``lrn``
    ``x / (bias + alpha / size * sum of x*x over size channels) ** beta``, as in ONNX.
"""

from __future__ import annotations

from typing import Any

from tvmconv.graph.ir import Graph, Node, Value, made_by
from tvmconv.graph.rewrite.fold import scalar

# the kernel unrolls its window; wider windows stay a pooling, which is a loop
_MAX_LRN = 32


def fuse_patterns(graph: Graph) -> None:
    """Replace the last node of each pattern; the other nodes become dead."""
    for node in graph.nodes:
        if len(node.outputs) != 1 or not node.output.is_map:
            continue
        if node.op == "reshape":
            _reshaped_transpose(node)
        elif node.op == "divide" and node.output.is_float_map:
            _lrn(node)


def _become(node: Node, op: str, source: Value, **attrs: Any) -> None:
    node.op, node.args, node.attrs, node.call = op, [source], attrs, None


def _reshaped_transpose(node: Node) -> None:
    """reshape(permute_dims(reshape(x))): a channel shuffle or a depth-to-space."""
    permute = made_by(node.args[0], "permute_dims")
    split = made_by(permute.args[0], "reshape") if permute else None
    if permute is None or split is None:
        return
    source = split.args[0]
    if not source.is_map or split.output.shape is None:
        return
    n, channels, height, width = source.dims
    middle, axes = split.output.dims, permute.attrs.get("axes")
    if axes == (0, 2, 1, 3, 4) and node.output.shape == source.shape:
        if middle == (n, middle[1], channels // middle[1], height, width):
            _become(node, "channel_shuffle", source, groups=middle[1])
    elif len(middle) == 6:
        order = {(0, 3, 4, 1, 5, 2): "DCR", (0, 1, 4, 2, 5, 3): "CRD"}.get(tuple(axes or ()))
        if order is None:
            return
        block = middle[1] if order == "DCR" else middle[2]
        kept = channels // (block * block)
        expected = {
            "DCR": (n, block, block, kept, height, width),
            "CRD": (n, kept, block, block, height, width),
        }
        shape = (n, kept, height * block, width * block)
        if middle == expected[order] and node.output.shape == shape:
            inner = kept if order == "DCR" else 1
            attrs = {"block": (block, block), "inner": inner, "stride": inner, "crop": (0, 0)}
            _become(node, "depth_to_space", source, **attrs)


def _lrn(node: Node) -> None:
    """x / (bias + scale * average over a window of channels of x*x) ** beta."""
    source = node.args[0]
    power = made_by(node.args[1], "power")
    added = made_by(power.args[0], "add") if power else None
    scaled = made_by(added.args[0], "multiply") if added else None
    squeezed = made_by(scaled.args[0], "reshape") if scaled else None
    pooled = _window_mean(squeezed.args[0]) if squeezed else None
    expanded = made_by(pooled.args[0], "reshape") if pooled else None
    squared = made_by(expanded.args[0], "multiply") if expanded else None
    if not (power and added and scaled and pooled and expanded and squared):
        return
    if squared.args[0] is not source or squared.args[1] is not source:
        return
    beta, bias, alpha = scalar(power.args[1]), scalar(added.args[1]), scalar(scaled.args[1])
    batch, channels = source.dims[:2]
    if None in (beta, bias, alpha) or expanded.output.dims[:3] != (batch, 1, channels):
        return
    size = pooled.attrs["pool_size"][0]
    if size > _MAX_LRN:
        return
    _become(node, "lrn", source, size=size, alpha=alpha, beta=beta, bias=bias)


def _window_mean(value: Value) -> Node | None:
    """The pooling that averages over a window of the first spatial axis, zeros beyond its ends."""
    pooled = made_by(value, "nn.avg_pool3d") or made_by(value, "nn.avg_pool2d")
    if pooled is None:
        return None
    attrs = pooled.attrs
    size, *others = attrs["pool_size"]
    rank = 1 + len(others)
    low = (size - 1) // 2
    zeros = (0,) * (rank - 1)
    expected = {
        "strides": (1,) * rank,
        "dilation": (1,) * rank,
        "padding": (low, *zeros, size - 1 - low, *zeros),
        "count_include_pad": True,
    }
    along = all(extent == 1 for extent in others)
    return pooled if along and all(attrs[k] == v for k, v in expected.items()) else None
