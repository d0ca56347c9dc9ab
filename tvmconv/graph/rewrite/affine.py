"""Folds per-channel arithmetic into the weights and bias of the layer before it."""

from __future__ import annotations

import numpy as np

from tvmconv.core.affine import scale_and_shift
from tvmconv.graph.ir import Array, Graph, Node, Value, constant, is_plain_conv, per_channel


def channel_affine(node: Node, source: Value, axis: int = 1) -> tuple[Array, Array] | None:
    """(scale, shift), one float64 number per channel, if the node computes scale*source + shift.

    ``axis`` is the channel axis of the source: 1 for feature maps, -1 for matrices.
    """
    if node.op not in ("add", "subtract", "multiply", "divide") or source.shape is None:
        return None
    left, right = node.args
    other = node.other(source)
    if left is right or source not in (left, right) or node.output.shape != source.shape:
        return None
    channels, rank = source.shape[axis], len(source.shape)
    vector = per_channel(other, channels, rank) if axis == 1 else last_axis(other, channels)
    if vector is None:
        return None
    return scale_and_shift(node.op, vector, constant_first=right is source)


def last_axis(value: Value, channels: int) -> Array | None:
    """A constant as one float64 number per element of the last axis, or None."""
    data = value.data
    if data is None or data.dtype.kind != "f" or data.size not in (1, channels):
        return None
    if data.size > 1 and data.shape[-1] != channels:
        return None
    return np.broadcast_to(data.astype(np.float64).reshape(-1), (channels,))


def fold_affine(graph: Graph) -> None:
    """Fold arithmetic after convolutions and dense layers; the third argument becomes the bias.

    Chains end at values with several readers, because another reader needs the value.
    Reshapes that keep the channels may come between a fully connected layer and the arithmetic.
    """
    counts, users = graph.use_counts(), graph.users()
    absorbed: set[int] = set()
    for node in graph.nodes:
        is_layer = is_plain_conv(node) or node.op == "dense"
        if not is_layer or node.const(1) is None or node.output.shape is None:
            continue
        axis = 1 if node.op == "nn.conv2d" else -1
        channels = node.output.dims[axis]
        scale, shift = np.ones(channels), np.zeros(channels)
        changed, last = False, node
        while counts[last.output] == 1 and last.output in users:
            follower = users[last.output][0]
            if len(follower.outputs) != 1:
                break
            if node.op == "dense" and _keeps_columns(follower):
                last = follower
                continue
            step = channel_affine(follower, last.output, axis)
            if step is None:
                break
            scale, shift = scale * step[0], shift * step[0] + step[1]
            last.outputs = follower.outputs
            last.output.producer = last
            absorbed.add(id(follower))
            changed = True
        if changed:
            _apply(node, scale, shift)
    graph.nodes = [node for node in graph.nodes if id(node) not in absorbed]


def _keeps_columns(node: Node) -> bool:
    """Whether a node only changes the shape of rows."""
    if node.op != "reshape" or node.output.shape is None or node.args[0].shape is None:
        return False
    return bool(node.output.dims) and node.output.dims[-1:] == node.args[0].dims[-1:]


def _apply(node: Node, scale: Array, shift: Array) -> None:
    """Fold ``scale`` and ``shift`` into the weight and bias of a linear layer."""
    weight, old = node.args[1], node.const(2) if len(node.args) > 2 else None
    if np.any(scale != 1):
        along = (-1, 1, 1, 1) if node.op == "nn.conv2d" else (1, -1)
        node.args[1] = constant(weight.data * scale.reshape(along), weight.name, weight.dtype)
    bias = shift if old is None else old * scale + shift
    node.args[2:] = [constant(bias, f"{node.layer}_bias", node.output.dtype)]
    node.call = None
