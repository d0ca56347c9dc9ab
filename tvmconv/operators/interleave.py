"""Depth-to-space on the channel-blocked layout."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


@dataclass(frozen=True)
class DepthPhases:
    """Phases of volumes along their depth; each plane is an image of the batch.

    A volume has ``images`` planes before and ``planes`` after interleaving: ``stride`` planes of
    each image, of which the first ``crop`` are left out. An image has the first ``filled`` planes,
    the others are zero.
    """

    images: int
    planes: int
    stride: int
    crop: int
    filled: int

    @property
    def is_exact(self) -> bool:
        """Whether no plane is left out or zero."""
        whole = self.crop == 0 and self.planes == self.images * self.stride
        return whole and self.filled == self.stride

    def source(self, n: Expr) -> tuple[Expr, Expr]:
        """The image that holds a plane, and the plane's phase."""
        plane = self.uncropped(n)
        return plane // self.stride, plane % self.stride

    def uncropped(self, n: Expr) -> Expr:
        """The place of a plane among those of all images."""
        if self.is_exact:
            return n
        return n // self.planes * (self.images * self.stride) + n % self.planes + self.crop


def depth_to_space(
    data: Tensor,
    channels: int,
    size: tuple[int, int],
    block: tuple[int, int],
    inner: int,
    stride: int,
    crop: tuple[int, int] = (0, 0),
    depth: DepthPhases | None = None,
    filled: tuple[int, int] | None = None,
) -> Tensor:
    """Interleave groups of channels into space.

    With ``phase = y % bh * bw + x % bw``, output channel ``k = g * inner + o`` at (y, x) is input
    channel ``(g * bh * bw + phase) * stride + o`` at (y // bh, x // bw).

    ``data`` is ``(N, CB, H, W, c)``. ``channels`` and ``size`` are of the output, and ``block`` is
    (bh, bw). A group of the output has ``inner`` channels; ``stride`` is the distance between
    phases in the input. ONNX's DCR mode has ``inner = stride = channels``, its CRD mode
    ``inner = stride = 1``. ``crop`` are rows and columns left out at the top and left. The result
    is ``(N, ceil(channels / c), *size, c)``. Whole vectors are copied where there is one group and
    ``stride`` is a multiple of ``c``. Phases of volumes are ``depth`` phases of these phases; the
    result has the planes of all volumes. With ``filled``, the input has only the first rows and
    columns of each block's phases. The others are zero.
    """
    batch, lanes = planes_of(int(data.shape[0]), depth), int(data.shape[4])
    (bh, bw), (fh, fw) = block, filled or block
    phases = fh * fw * (depth.filled if depth else 1)
    whole = inner == channels and stride % lanes == 0

    def element(n: Expr, kb: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        y, x = h + crop[0], w + crop[1]
        image, own = depth.source(n) if depth else (n, 0)
        phase = (own * fh + y % bh) * fw + x % bw
        given = [place < count for place, count, size in (
            (own, depth.filled if depth else 1, depth.stride if depth else 1),
            (y % bh, fh, bh), (x % bw, fw, bw)) if count < size]  # fmt: skip

        def value(pixel: Expr) -> Expr:
            if not given:
                return pixel
            return tirx.if_then_else(tirx.all(*given), pixel, tirx.const(0, data.dtype))

        if whole:
            return value(data[image, phase * (stride // lanes) + kb, y // bh, x // bw, c])
        k = kb * lanes + c
        if channels % lanes:
            k = tirx.min(k, channels - 1)
        channel = (k // inner * phases + phase) * stride + k % inner
        return value(data[image, channel // lanes, y // bh, x // bw, channel % lanes])

    return te.compute(
        (batch, -(-channels // lanes), *size, lanes),
        element,
        name="depth_to_space",
        attrs={"tvmconv.operator": "depth_to_space"},
    )


def planes_of(images: int, depth: DepthPhases | None) -> int:
    """Images of a result, from ``images``."""
    return images if depth is None else images // depth.images * depth.planes


def interleaved(
    data: Tensor,
    channels: int,
    block: tuple[int, int],
    inner: int,
    stride: int,
    depth: DepthPhases | None = None,
) -> Tensor:
    """As :func:`depth_to_space`, in the plain layout and for the whole image.

    The result is ``(N, channels, H, bh, W, bw)``, in the memory order of
    ``(N, channels, H * bh, W * bw)``. Neighboring positions are neighboring channels if ``stride``
    is 1.
    """
    batch, _, height, width, lanes = (int(d) for d in data.shape)
    (bh, bw), planes = block, depth.stride if depth else 1

    def element(n: Expr, k: Expr, h: Expr, a: Expr, w: Expr, b: Expr) -> Expr:
        image, own = depth.source(n) if depth else (n, 0)
        phase = (own * bh + a) * bw + b
        channel = (k // inner * (planes * bh * bw) + phase) * stride + k % inner
        return data[image, channel // lanes, h, w, channel % lanes]

    shape = (planes_of(batch, depth), channels, height, bh, width, bw)
    return te.compute(shape, element, name="interleaved")


def interleaved_planes(planes: Tensor) -> Tensor:
    """``(P, bh, bw, H, W)``, a plane for each phase of an image, to ``(P, H, bh, W, bw)``."""
    count, bh, bw, height, width = (int(d) for d in planes.shape)

    def element(p: Expr, h: Expr, a: Expr, w: Expr, b: Expr) -> Expr:
        return planes[p, a, b, h, w]

    return te.compute((count, height, bh, width, bw), element, name="interleaved_planes")
