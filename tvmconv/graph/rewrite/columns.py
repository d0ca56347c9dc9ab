"""Lets convolutions of images of one column run along rows.

Some exporters write signals as ``(N, C, W, 1)``. Register tiles are widest along rows, and an image
of one column is in memory what an image of one row is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.ir import Graph, constant
from tvmconv.graph.match import CONV


def columns_as_rows(graph: Graph) -> None:
    """Swap height and width of such layers' workloads and weights, in place.

    Values keep their shapes: kernels read and write views of them.

    Parameters
    ----------
    graph
        After :func:`~tvmconv.graph.match.fuse_layers`.
    """
    users = graph.users()
    for node in graph.nodes:
        if node.op != CONV or not _is_column(node.attrs["workload"]):
            continue
        if any(user.op == "depth_to_space" for user in users.get(node.output, ())):
            # which makes squares of the pixels as they are
            continue
        w: Conv2dWorkload = node.attrs["workload"]
        weight = node.args[1]
        turned = np.ascontiguousarray(np.swapaxes(weight.data, 2, 3))
        node.args[1] = constant(turned, weight.name, weight.dtype)
        node.attrs["workload"] = replace(
            w,
            in_height=1,
            in_width=w.in_height,
            kernel_h=1,
            kernel_w=w.kernel_h,
            stride_h=1,
            stride_w=w.stride_h,
            pad_top=0,
            pad_left=w.pad_top,
            pad_bottom=0,
            pad_right=w.pad_bottom,
            dilation_h=1,
            dilation_w=w.dilation_h,
        )


def _is_column(w: Conv2dWorkload) -> bool:
    """Whether images and kernels have one column, and nothing beside it."""
    single = (w.in_width, w.kernel_w, w.pad_left, w.pad_right) == (1, 1, 0, 0)
    return single and w.in_height > 1 and w.types == FLOAT32 and not w.is_volume
