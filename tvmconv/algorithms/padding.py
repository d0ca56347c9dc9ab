"""Implicit zero padding: a predicate on what is read instead of a padded copy of the input."""

from __future__ import annotations

from typing import Any

from tvmconv.workload import Conv2dWorkload


def inside_image(value: Any, row: Any, column: Any, workload: Conv2dWorkload) -> Any:
    """The value where its input position lies in the image, zero where it is padding.

    A multiply-add of zero vanishes where the predicate is false at compile time. Where it stays
    undecided in the hot loop, select the product if one vector is read per multiply-add
    (depthwise), and the input if one scalar feeds several (first layers).

    Parameters
    ----------
    value
        float32 expression that reads the input at ``(row, column)``.
    row, column
        Input position; outside ``[0, H)`` or ``[0, W)`` in the padding.
    workload
        The convolution. Bounds that no output can cross are left out.
    """
    from tvm import te, tirx

    w = workload
    lowest_row = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h - w.pad_top
    rightmost = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w - w.pad_left
    bounds = []
    if w.pad_top:
        bounds.append(row >= 0)
    if lowest_row >= w.in_height:
        bounds.append(row < w.in_height)
    if w.pad_left:
        bounds.append(column >= 0)
    if rightmost >= w.in_width:
        bounds.append(column < w.in_width)
    if not bounds:
        return value
    return tirx.if_then_else(te.all(*bounds), value, tirx.const(0.0, w.dtype))
