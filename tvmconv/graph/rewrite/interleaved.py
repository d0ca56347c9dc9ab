"""Orders the channels of convolutions before a depth-to-space so that whole vectors are moved.

In an exporter's pixel shuffle, the channels of one pixel are not consecutive. Constant weights can
be reordered. Each phase gets consecutive channels, padded to whole blocks, as in a transposed
convolution (:mod:`~tvmconv.graph.rewrite.transposed`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.graph.ir import Array, Graph, Node, constant
from tvmconv.graph.match import CONV
from tvmconv.graph.rewrite.transposed import whole_blocks


def order_phases(graph: Graph, lanes: int) -> None:
    """Rewrite fused convolutions whose only reader is a depth-to-space, in place.

    ``lanes`` is the number of channels in a block.
    """
    counts = graph.use_counts()
    for node in graph.nodes:
        if node.op != "depth_to_space":
            continue
        source, attrs = node.args[0], node.attrs
        made, channels = source.producer, node.output.dims[1]
        stride = whole_blocks(channels, lanes)
        # weights of transposed layers have whole blocks where that pays
        done = "depth" in attrs or "filled" in attrs
        done |= attrs["inner"] == channels and attrs["stride"] % lanes == 0
        if made is None or done or counts[source] != 1 or stride % lanes or not _free(made):
            continue
        order = _order(node, stride)
        made.args[1:] = [constant(_ordered(v.data, order), v.name, v.dtype) for v in made.args[1:]]
        made.attrs["workload"] = replace(made.attrs["workload"], out_channels=len(order))
        batch, _, height, width = source.dims
        source.shape = (batch, len(order), height, width)
        node.attrs = {**attrs, "inner": channels, "stride": stride}


def _free(node: Node) -> bool:
    """Whether the order of a layer's outputs is free: FP32, one group, without a residual."""
    if node.op != CONV:
        return False
    workload = node.attrs["workload"]
    return (
        workload.groups == 1
        and not workload.is_volume
        and not workload.has("add")
        and not workload.types.is_integer
        and node.args[1].data is not None
    )


def _order(node: Node, stride: int) -> Array:
    """The old channel of each new channel, -1 for channels that pad blocks."""
    channels = phase_channels(node)
    order = np.full((channels.shape[1], stride), -1)
    order[:, : len(channels)] = channels.T
    return order.reshape(-1)


def phase_channels(node: Node) -> Array:
    """The channel that a depth-to-space reads, by output channel and pixel of a block."""
    (rows, steps), inner, stride = (node.attrs[k] for k in ("block", "inner", "stride"))
    k = np.arange(node.output.dims[1])[:, None]
    phase = np.arange(rows * steps)[None, :]
    order: Array = (k // inner * (rows * steps) + phase) * stride + k % inner
    return order


def _ordered(data: Array, order: Array) -> Array:
    """A weight's or a bias's channels by their old numbers, zeros for -1."""
    result = (data if data.ndim == 4 else data.reshape(-1))[np.maximum(order, 0)]
    result[order < 0] = 0
    return result
