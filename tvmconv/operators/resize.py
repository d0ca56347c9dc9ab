"""Resizing images in the channel-blocked layout."""

from __future__ import annotations

from tvmconv.tvm_api import topi
from tvmconv.tvm_api.types import Tensor


def resize_blocked(
    data: Tensor,
    size: tuple[int, int],
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.75,
    roi: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
) -> Tensor:
    """Resize ``(N, CB, H, W, c)`` to a height and width, as ``relax.image.resize2d`` does.

    ``method`` is ``nearest_neighbor``, ``linear`` or ``cubic``.
    """
    return topi.image.resize2d(
        data,
        list(roi),
        list(size),
        layout=f"NCHW{int(data.shape[4])}c",
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        bicubic_alpha=cubic_alpha,
    )
