"""Transposed convolutions with run-time weights, whose outputs are overlapped and added as tensors.

All outputs of a pixel are a product of matrices, which then overlap.

A transposed convolution of volumes adds, for each input slice, one output slice for each row of the
kernel's depth. All of these are one two-dimensional transposed convolution of each input slice.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.frontend.windows import Window
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

# the transposed convolution of images with a weight and a window
Planar = Callable[[RelaxExpr, RelaxExpr, Window], RelaxExpr]


def transposed_volume(
    e: RelaxWriter, x: RelaxExpr, weight: RelaxExpr, window: Window, planar: Planar
) -> RelaxExpr:
    """``ConvTranspose`` of ``(N, C, D, H, W)`` with a weight ``(C, K / groups, d, h, w)``."""
    n, channels, depth, height, width = (int(size) for size in x.ty.shape)
    _, inner, rows, *kernel = (int(size) for size in weight.ty.shape)
    groups, flat = window.groups, (channels, rows * inner, *kernel)
    apart = e.emit(relax.op.permute_dims(weight, (0, 2, 1, 3, 4)), "rows")
    kernels = e.emit(relax.op.reshape(apart, flat), "kernels")
    slices = e.emit(relax.op.permute_dims(x, (0, 2, 1, 3, 4)), "slices")
    images = e.emit(relax.op.reshape(slices, (n * depth, channels, height, width)), "images")
    y = planar(images, kernels, window.without_depth())
    *_, out_height, out_width = (int(size) for size in y.ty.shape)
    parts = (n, depth, groups, rows, inner, out_height * out_width)
    y = e.emit(relax.op.reshape(y, parts), "parts")
    y = e.emit(relax.op.permute_dims(y, (0, 2, 4, 1, 3, 5)), "outputs")
    y = e.emit(relax.op.reshape(y, (n, groups * inner, depth, rows, parts[-1])), "rows")
    y = _overlapped(e, y, window.strides[0], window.dilations[0])
    y = _cut(e, y, window.begin[0], window.output[0])
    result = (n, groups * inner, window.output[0], out_height, out_width)
    return e.emit(relax.op.reshape(y, result), "volume")


def transposed_product(
    e: RelaxWriter,
    x: RelaxExpr,
    weight: RelaxExpr,
    window: Window,
    bias: RelaxExpr | None = None,
) -> RelaxExpr:
    """``ConvTranspose`` of ``(N, C, H, W)`` with a run-time weight ``(C, K / groups, R, S)``.

    Give a bias ``(1, K, 1, 1)`` only if each output belongs to exactly one input.
    """
    n, channels, height, width = (int(size) for size in x.ty.shape)
    _, inner, rows, columns = (int(size) for size in weight.ty.shape)
    groups, outputs = window.groups, window.groups * inner
    inputs, taps = channels // groups, inner * rows * columns
    pixels = e.emit(relax.op.reshape(x, (n, groups, inputs, height * width)), "pixels")
    kernels = e.emit(relax.op.reshape(weight, (1, groups, inputs, taps)), "kernels")
    kernels = e.emit(relax.op.permute_dims(kernels, (0, 1, 3, 2)), "kernels")
    y = e.emit(relax.op.matmul(kernels, pixels), "products")
    if bias is not None:
        b = e.emit(relax.op.broadcast_to(bias, (1, outputs, rows, columns)), "bias")
        b = e.emit(relax.op.reshape(b, (1, groups, taps, 1)), "bias")
        y = e.emit(relax.op.add(y, b), "biased")
    y = e.emit(relax.op.reshape(y, (n * outputs, rows, columns, height, width)), "taps")
    y = e.emit(relax.op.permute_dims(y, (0, 3, 1, 4, 2)), "taps")
    y = e.emit(relax.op.reshape(y, (n, outputs, height, rows, width * columns)), "rows")
    y = _overlapped(e, y, window.strides[0], window.dilations[0])
    y = _cut(e, y, window.begin[0], window.output[0])
    parts = (n, outputs * window.output[0], width, columns, 1)
    y = e.emit(relax.op.reshape(y, parts), "columns")
    y = _overlapped(e, y, window.strides[1], window.dilations[1])
    y = _cut(e, y, window.begin[1], window.output[1])
    return e.emit(relax.op.reshape(y, (n, outputs, *window.output)), "image")


def _overlapped(e: RelaxWriter, y: RelaxExpr, stride: int, dilation: int) -> RelaxExpr:
    """``(N, K, D, rows, P)`` to ``(N, K, depth, P)``: row ``r`` of slice ``d`` is at ``d s + r``.

    Groups of ``stride`` rows do not overlap. They are added, each ``stride`` further than the last.
    Rows of a dilated kernel have rows of zeros between them.
    """
    y = _dilated(e, y, dilation)
    n, channels, depth, rows, pixels = (int(size) for size in y.ty.shape)
    count = -(-rows // stride)
    if missing := count * stride - rows:
        y = e.emit(relax.op.nn.pad(y, [0, 0, 0, 0, 0, 0, 0, missing, 0, 0]), "filled")
    total = None
    for number in range(count):
        begin = number * stride
        part = e.emit(relax.op.strided_slice(y, [3], [begin], [begin + stride]), "group")
        part = e.emit(relax.op.reshape(part, (n, channels, depth * stride, pixels)), "group")
        after = (count - 1) * stride - begin
        if begin or after:
            part = e.emit(relax.op.nn.pad(part, [0, 0, 0, 0, begin, after, 0, 0]), "moved")
        total = part if total is None else e.emit(relax.op.add(total, part), "sum")
    assert total is not None
    return total


def _dilated(e: RelaxWriter, y: RelaxExpr, dilation: int) -> RelaxExpr:
    """Products ``(N, K, D, rows, P)`` with ``dilation - 1`` rows of zeros between two rows."""
    n, channels, depth, rows, pixels = (int(size) for size in y.ty.shape)
    if dilation == 1 or rows == 1:
        return y
    y = e.emit(relax.op.reshape(y, (n, channels, depth, rows, 1, pixels)), "apart")
    y = e.emit(relax.op.nn.pad(y, [0] * 9 + [dilation - 1, 0, 0]), "dilated")
    y = e.emit(relax.op.reshape(y, (n, channels, depth, rows * dilation, pixels)), "dilated")
    return e.emit(relax.op.strided_slice(y, [3], [0], [(rows - 1) * dilation + 1]), "dilated")


def _cut(e: RelaxWriter, y: RelaxExpr, begin: int, size: int) -> RelaxExpr:
    """Slices from ``begin`` on; slices that no input reaches are zero."""
    length = int(y.ty.shape[2])
    if missing := max(0, begin + size - length):
        y = e.emit(relax.op.nn.pad(y, [0, 0, 0, 0, 0, missing, 0, 0]), "fill")
    if begin or begin + size < length:
        y = e.emit(relax.op.strided_slice(y, [2], [begin], [begin + size]), "cropped")
    return y
