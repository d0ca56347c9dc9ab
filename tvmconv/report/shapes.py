"""The shape of a layer, the way people write it."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload


def shape_text(workload: str, stride: str = "/") -> str:
    """``64x56x56 -> 128x28x28 3x3/2`` of a problem string; empty for an empty string.

    A fully connected layer is ``197x768 -> 197x3072``, with its rows.

    Parameters
    ----------
    workload
        The problem string.
    stride
        The text before the stride.
    """
    if not workload:
        return ""
    w = Conv2dWorkload.parse(workload)
    if w.is_matrix:
        return f"{w.batch}x{w.in_channels} -> {w.batch}x{w.out_channels}"
    planes = (f"{w.in_depth}x", f"{w.out_depth}x", f"{w.kernel_d}x") if w.is_volume else [""] * 3
    text = (
        f"{w.in_channels}x{planes[0]}{w.in_height}x{w.in_width} -> "
        f"{w.out_channels}x{planes[1]}{w.out_height}x{w.out_width} "
        f"{planes[2]}{w.kernel_h}x{w.kernel_w}"
    )
    if w.stride_d != 1:
        text += f"{stride}{w.stride_d}x{w.stride_h}x{w.stride_w}"
    elif (w.stride_h, w.stride_w) != (1, 1):
        same = w.stride_h == w.stride_w
        text += f"{stride}{w.stride_h}" if same else f"{stride}{w.stride_h}x{w.stride_w}"
    if (w.dilation_h, w.dilation_w) != (1, 1):
        text += f" d{w.dilation_h}"
    if w.groups > 1:
        text += " dw" if w.is_depthwise else f" g{w.groups}"
    return text
