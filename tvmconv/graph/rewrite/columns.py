"""Lets convolutions of images of one column run along rows.

Some exporters write signals as ``(N, C, W, 1)``. Register tiles are widest along rows, and images
with one column or one row are equal in memory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.ir import Graph, constant
from tvmconv.graph.match import CONV


def columns_as_rows(graph: Graph) -> None:
    """Swap height and width of the workloads and weights of fused layers, in place.

    Values keep their shapes: kernels read and write views of them.
    """
    users = graph.users()
    for node in graph.nodes:
        if node.op != CONV or not _is_column(node.attrs["workload"]):
            continue
        # a depth-to-space needs both axes
        if any(user.op == "depth_to_space" for user in users.get(node.output, ())):
            continue
        w: Conv2dWorkload = node.attrs["workload"]
        weight = node.args[1]
        swapped = np.ascontiguousarray(np.swapaxes(weight.data, 2, 3))
        node.args[1] = constant(swapped, weight.name, weight.dtype)
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
    """Whether images and kernels have one column without padding at its sides."""
    single = (w.in_width, w.kernel_w, w.pad_left, w.pad_right) == (1, 1, 0, 0)
    return single and w.in_height > 1 and w.types == FLOAT32 and not w.is_volume
