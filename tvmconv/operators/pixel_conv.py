"""Convolution by vectors of pixels, plain layouts in and out.

Channel blocks contain zeros if groups do not divide them, if several outputs share an input
channel, or if a layer has few channels. Here a vector holds neighboring pixels of one channel. Only
the padding and the last vector multiply zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.operators.epilogue import apply_epilogue
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PixelTile:
    """A register tile: ``outputs`` channels of a group, ``vectors`` of ``lanes`` pixels each."""

    outputs: int
    vectors: int
    lanes: int


def is_padded(workload: Conv2dWorkload, lanes: int) -> bool:
    """Whether taps read a padded copy: all but single pixels of rows of whole vectors."""
    w = workload
    unit = (w.kernel_h, w.kernel_w, w.stride_h, w.stride_w) == (1, 1, 1, 1)
    return not unit or w.has_padding or w.out_width % lanes > 0


def pack_pixel_weight(weight: FloatArray, workload: Conv2dWorkload, tile: PixelTile) -> FloatArray:
    """OIHW to ``(G, ceil(J / outputs), C / G, R, S, outputs)``; ``J`` outputs of a group."""
    groups, (_, channels, rows, columns) = workload.groups, weight.shape
    each = workload.out_channels // groups
    tiles = -(-each // tile.outputs)
    padded = np.zeros((groups, tiles * tile.outputs, channels, rows, columns), np.float32)
    padded[:, :each] = weight.reshape(groups, each, channels, rows, columns)
    split = padded.reshape(groups, tiles, tile.outputs, channels, rows, columns)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 5, 2))


def pixel_conv(
    data: Tensor,
    weight: Tensor,
    *rest: Tensor,
    workload: Conv2dWorkload,
    tile: PixelTile,
    phases: tuple[int, int] = (1, 1),
) -> Tensor:
    """``epilogue(conv(data, weight))``.

    ``data`` is ``(N, C, H, W)``. The weight is from :func:`pack_pixel_weight`, or OIHW as it is if
    the tile divides a group's outputs. ``rest`` is the bias ``(G, J)`` if the epilogue has
    ``bias``, then the residual, as the output, if it has ``add``. Where outputs are not
    interleaved, :func:`tvmconv.algorithms.direct.direct.flattened` makes the workload. ``phases``
    are rows and columns that a transposed convolution makes of each pixel; neighboring outputs are
    interleaved into them. The result is ``(N, G, J, OH, OW)``, or of ``a x b`` phases
    ``(N, G, J / a / b, OH, a, OW, b)``.
    """
    w, lanes = workload, tile.lanes
    others = list(rest)
    bias = others.pop(0) if w.has("bias") else None
    residual = others.pop(0) if w.has("add") else None
    inputs, each = w.in_channels // w.groups, w.out_channels // w.groups
    columns = -(-w.out_width // lanes) * lanes
    copy = _padded(data, w, columns) if is_padded(w, lanes) else None
    ci = te.reduce_axis((0, inputs), "ci")
    r = te.reduce_axis((0, w.kernel_h), "r")
    s = te.reduce_axis((0, w.kernel_w), "s")

    def kernel(g: Expr, t: Expr, j: Expr) -> Expr:
        if len(weight.shape) > 4:
            return weight[g, t, ci, r, s, j]
        return weight[g * each + t * tile.outputs + j, ci, r, s]

    def multiply(n: Expr, g: Expr, t: Expr, j: Expr, y: Expr, x: Expr) -> Expr:
        channel, factor = g * inputs + ci, kernel(g, t, j)
        if copy is None:
            return te.sum(data[n, channel, y, x] * factor, axis=[ci, r, s])
        row, step = y * w.stride_h + r * w.dilation_h, s * w.dilation_w
        pixel = copy[n, channel, row, step % w.stride_w, x + step // w.stride_w]
        return te.sum(pixel * factor, axis=[ci, r, s])

    total = te.compute(
        (w.batch, w.groups, -(-each // tile.outputs), tile.outputs, w.out_height, columns),
        multiply,
        name="pixel_conv",
        attrs={"tvmconv.operator": "pixel_conv", "tvmconv.vectors": tile.vectors},
    )

    def finished(n: Expr, g: Expr, j: Expr, y: Expr, x: Expr) -> Expr:
        place = (n, g, j, y, x)
        return apply_epilogue(
            total[n, g, j // tile.outputs, j % tile.outputs, y, x],
            w.epilogue,
            bias[g, j] if bias is not None else None,
            residual[place] if residual is not None else None,
        )

    shape = (w.batch, w.groups, each, w.out_height)
    if phases == (1, 1):
        return te.compute((*shape, w.out_width), finished, name="output")
    (rows, steps), whole = phases, te.compute((*shape, columns), finished, name="finished")

    def interleaved(n: Expr, g: Expr, k: Expr, y: Expr, a: Expr, x: Expr, b: Expr) -> Expr:
        return whole[n, g, (k * rows + a) * steps + b, y, x]

    channels = each // (rows * steps)
    image = (w.batch, w.groups, channels, w.out_height, rows, w.out_width, steps)
    return te.compute(image, interleaved, name="output")


def _padded(data: Tensor, w: Conv2dWorkload, columns: int) -> Tensor:
    """``(N, C, rows, stride, columns)``: a pixel of each stride apart, zeros around the image."""
    rows = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    reach = (w.kernel_w - 1) * w.dilation_w // w.stride_w
    shape = (w.batch, w.in_channels, rows, w.stride_w, columns + reach)

    def element(n: Expr, c: Expr, y: Expr, p: Expr, x: Expr) -> Expr:
        row, column = y - w.pad_top, x * w.stride_w + p - w.pad_left
        inside = tirx.all(row >= 0, row < w.in_height, column >= 0, column < w.in_width)
        return tirx.if_then_else(inside, data[n, c, row, column], tirx.const(0, data.dtype))

    return te.compute(shape, element, name="padded")
