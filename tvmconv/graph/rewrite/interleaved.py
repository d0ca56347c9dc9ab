"""Orders the channels of convolutions in front of depth-to-space so that whole vectors are moved.

An exporter's pixel shuffle has the channels of one pixel apart. The weights are constant: their
order is free, and the phases can each have channels of their own, padded to whole blocks, as those
of a transposed convolution have (:mod:`~tvmconv.graph.rewrite.transposed`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.graph.ir import Array, Graph, Node, constant
from tvmconv.graph.match import CONV
from tvmconv.graph.rewrite.transposed import whole_blocks


def order_phases(graph: Graph, lanes: int) -> None:
    """Rewrite convolutions that nothing but a depth-to-space reads.

    Parameters
    ----------
    graph
        After :func:`~tvmconv.graph.match.fuse_layers`.
    lanes
        Channels of a block.
    """
    counts = graph.use_counts()
    for node in graph.nodes:
        if node.op != "depth_to_space":
            continue
        source, attrs = node.args[0], node.attrs
        made, channels = source.producer, node.output.dims[1]
        stride = whole_blocks(channels, lanes)
        done = attrs["inner"] == channels and attrs["stride"] % lanes == 0
        if made is None or done or counts[source] != 1 or stride % lanes or not _free(made):
            continue
        phases = attrs["block"][0] * attrs["block"][1]
        order = _order(channels, phases, attrs["inner"], attrs["stride"], stride)
        made.args[1:] = [constant(_ordered(v.data, order), v.name, v.dtype) for v in made.args[1:]]
        made.attrs["workload"] = replace(made.attrs["workload"], out_channels=len(order))
        batch, _, height, width = source.dims
        source.shape = (batch, len(order), height, width)
        node.attrs = {**attrs, "inner": channels, "stride": stride}


def _free(node: Node) -> bool:
    """Whether a layer's outputs may have any order: of float32, in one group, with no residual."""
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


def _order(channels: int, phases: int, inner: int, old: int, stride: int) -> Array:
    """The old channel of each new one, -1 of those that fill blocks up."""
    order = np.full((phases, stride), -1)
    k = np.arange(channels)
    for phase in range(phases):
        order[phase, :channels] = (k // inner * phases + phase) * old + k % inner
    return order.reshape(-1)


def _ordered(data: Array, order: Array) -> Array:
    """A weight's or a bias's channels by their old numbers, zeros for -1."""
    result = (data if data.ndim == 4 else data.reshape(-1))[np.maximum(order, 0)]
    result[order < 0] = 0
    return result
