"""Implicit zero padding: a predicate on the product instead of a padded copy of the input."""

from __future__ import annotations

from typing import Any

from tvmconv.workload import Conv2dWorkload


def product_inside(product: Any, row: Any, column: Any, workload: Conv2dWorkload) -> Any:
    """The product where its input position lies in the image, zero where it is padding.

    Selecting the product, not the input value, lets the multiply-add vanish where the predicate
    is false at compile time: adding a constant zero folds, multiplying by one that was loaded
    does not.

    Parameters
    ----------
    product
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
        return product
    return tirx.if_then_else(te.all(*bounds), product, tirx.const(0.0, w.dtype))
