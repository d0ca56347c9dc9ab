"""Depth-to-space on the channel-blocked layout."""

from __future__ import annotations

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def depth_to_space(
    data: Tensor,
    channels: int,
    size: tuple[int, int],
    block: tuple[int, int],
    inner: int,
    stride: int,
    crop: tuple[int, int] = (0, 0),
) -> Tensor:
    """Interleave groups of channels into space.

    With ``phase = y % bh * bw + x % bw``, output channel ``k = g * inner + o`` at (y, x) is input
    channel ``(g * bh * bw + phase) * stride + o`` at (y // bh, x // bw).

    ``data`` is ``(N, CB, H, W, c)``. ``channels`` and ``size`` are of the output, and ``block`` is
    (bh, bw). A group of the output has ``inner`` channels; ``stride`` is the distance between
    phases in the input. ONNX's DCR mode has ``inner = stride = channels``, its CRD mode
    ``inner = stride = 1``. ``crop`` are rows and columns left out at the top and left. The result
    is ``(N, ceil(channels / c), *size, c)``. Whole vectors are copied where there is one group and
    ``stride`` is a multiple of ``c``.
    """
    batch, lanes = int(data.shape[0]), int(data.shape[4])
    (bh, bw), phases = block, block[0] * block[1]
    whole = inner == channels and stride % lanes == 0

    def element(n: Expr, kb: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        y, x = h + crop[0], w + crop[1]
        phase = y % bh * bw + x % bw
        if whole:
            return data[n, phase * (stride // lanes) + kb, y // bh, x // bw, c]
        k = kb * lanes + c
        if channels % lanes:
            k = tirx.min(k, channels - 1)
        channel = (k // inner * phases + phase) * stride + k % inner
        return data[n, channel // lanes, y // bh, x // bw, channel % lanes]

    return te.compute(
        (batch, -(-channels // lanes), *size, lanes),
        element,
        name="depth_to_space",
        attrs={"tvmconv.operator": "depth_to_space"},
    )


def interleaved(
    data: Tensor, channels: int, block: tuple[int, int], inner: int, stride: int
) -> Tensor:
    """As :func:`depth_to_space`, in the plain layout and for the whole image.

    The result is ``(N, channels, H, bh, W, bw)``, in the memory order of
    ``(N, channels, H * bh, W * bw)``. Neighboring positions are neighboring channels if ``stride``
    is 1.
    """
    batch, _, height, width, lanes = (int(d) for d in data.shape)
    bh, bw = block

    def element(n: Expr, k: Expr, h: Expr, a: Expr, w: Expr, b: Expr) -> Expr:
        channel = (k // inner * (bh * bw) + a * bw + b) * stride + k % inner
        return data[n, channel // lanes, h, w, channel % lanes]

    return te.compute((batch, channels, height, bh, width, bw), element, name="interleaved")


def interleaved_planes(planes: Tensor) -> Tensor:
    """``(P, bh, bw, H, W)``, a plane for each phase of an image, to ``(P, H, bh, W, bw)``."""
    count, bh, bw, height, width = (int(d) for d in planes.shape)

    def element(p: Expr, h: Expr, a: Expr, w: Expr, b: Expr) -> Expr:
        return planes[p, a, b, h, w]

    return te.compute((count, height, bh, width, bw), element, name="interleaved_planes")
