"""Convolution of volumes with run-time weights, as one of images whose channels are slices."""

from __future__ import annotations

from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.frontend.windows import Window
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr


def conv_of_slices(e: RelaxWriter, x: RelaxExpr, weight: RelaxExpr, window: Window) -> RelaxExpr:
    """``Conv`` of ``(N, C, D, H, W)`` with a weight ``(K, C / groups, d, h, w)``.

    An output slice is a convolution of the input slices that its window holds. They are copied to
    the channels of an image, so that all output slices are a batch of images.
    """
    n, channels, _, height, width = (int(size) for size in x.ty.shape)
    outputs, inputs, taps, *kernel = (int(size) for size in weight.ty.shape)
    depth, (stride, step) = window.output[0], (window.strides[0], window.dilations[0])
    if window.begin[0] or window.end[0]:
        ends = [window.begin[0], window.end[0]]
        x = e.emit(relax.op.nn.pad(x, [0, 0, 0, 0, *ends, 0, 0, 0, 0]), "padded")
    parts = []
    for tap in range(taps):
        end = tap * step + (depth - 1) * stride + 1
        part = e.emit(relax.op.strided_slice(x, [2], [tap * step], [end], [stride]), "slices")
        parts.append(e.emit(relax.op.permute_dims(part, (0, 2, 1, 3, 4)), "slices"))
    stacked = (n * depth, channels, 1, height * width)
    parts = [e.emit(relax.op.reshape(part, stacked), "slices") for part in parts]
    y = e.emit(relax.op.concat(parts, axis=2), "window") if taps > 1 else parts[0]
    images = e.emit(relax.op.reshape(y, (n * depth, channels * taps, height, width)), "images")
    kernels = e.emit(relax.op.reshape(weight, (outputs, inputs * taps, *kernel)), "kernels")
    plane = window.without_depth()
    y = e.emit(
        relax.op.nn.conv2d(
            images, kernels, strides=plane.strides, padding=plane.padding,
            dilation=plane.dilations, groups=plane.groups,
        )
    )  # fmt: skip
    y = e.emit(relax.op.reshape(y, (n, depth, outputs, *plane.output)), "images")
    return e.emit(relax.op.permute_dims(y, (0, 2, 1, 3, 4)), "volume")
