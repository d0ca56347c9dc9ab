"""Taps of convolutions that read only padding.

A kernel may be longer than the image. Of 64 columns on an image of 8, with padding 31 and 32, 15
columns read the image at some position of the output. Of 3x3 on one pixel, one tap does.
"""

from __future__ import annotations

import numpy as np

from tvmconv.graph.ir import Graph, Node, constant, is_plain_conv
from tvmconv.graph.match import taps_inside


def drop_unread_taps(graph: Graph) -> None:
    """Cut rows and columns off constant kernels that no position of the output needs, in place."""
    for node in graph.nodes:
        # the rows of a kernel of volumes belong to several planes
        if not is_plain_conv(node) or node.attrs.get("depth"):
            continue
        weight = node.const(1)
        static = node.args[0].shape is not None and node.output.shape is not None
        if weight is None or not static or not any(node.attrs["padding"]):
            continue
        (first_row, end_row), (first, end) = _read(node, 0), _read(node, 1)
        kept = weight[:, :, first_row:end_row, first:end]
        if kept.shape == weight.shape:
            continue
        rows, columns = weight.shape[2:]
        top, left, bottom, right = node.attrs["padding"]
        down, across = node.attrs["dilation"]
        padding = (
            top - first_row * down,
            left - first * across,
            bottom - (rows - end_row) * down,
            right - (columns - end) * across,
        )
        node.args[1] = constant(kept, node.args[1].name, node.args[1].dtype)
        node.attrs = {**node.attrs, "padding": padding}
        node.call = None


def _read(node: Node, axis: int) -> tuple[int, int]:
    """The first tap along an axis that reads the image, and the end of these taps.

    One tap more is kept where the padding would become negative.
    """
    attrs, taps = node.attrs, node.args[1].dims[2 + axis]
    before, after = attrs["padding"][axis], attrs["padding"][2 + axis]
    step = attrs["dilation"][axis]
    inside = taps_inside(node, axis).any(axis=0)
    read = np.flatnonzero(inside) if inside.any() else np.zeros(1, np.int64)
    first = min(int(read[0]), before // step)
    return first, max(int(read[-1]) + 1, taps - after // step)
