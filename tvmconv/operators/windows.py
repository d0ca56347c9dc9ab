"""The windows of a convolution as the columns of a matrix."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def zero_border(data: Tensor, workload: Conv2dWorkload) -> Tensor:
    """The image ``(N, C, H, W)`` with the zeros around it that a convolution reads."""
    w = workload
    rows = w.in_height + w.pad_top + w.pad_bottom
    columns = w.in_width + w.pad_left + w.pad_right

    def element(n: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
        row, column = y - w.pad_top, x - w.pad_left
        inside = tirx.all(row >= 0, row < w.in_height, column >= 0, column < w.in_width)
        return tirx.if_then_else(inside, data[n, c, row, column], tirx.const(0, data.dtype))

    return te.compute((w.batch, w.in_channels, rows, columns), element, name="padded")


def windows(data: Tensor, workload: Conv2dWorkload) -> Tensor:
    """``(N, C, R, S, OH, OW)``: the pixels that each kernel element multiplies.

    ``data`` is from :func:`zero_border`.
    """
    w = workload

    def element(n: Expr, c: Expr, r: Expr, s: Expr, y: Expr, x: Expr) -> Expr:
        row, column = y * w.stride_h + r * w.dilation_h, x * w.stride_w + s * w.dilation_w
        return data[n, c, row, column]

    shape = (w.batch, w.in_channels, w.kernel_h, w.kernel_w, w.out_height, w.out_width)
    return te.compute(shape, element, name="windows")
