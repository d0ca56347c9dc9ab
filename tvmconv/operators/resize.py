"""Resizing images in the channel-blocked layout."""

from __future__ import annotations

from math import gcd

from tvmconv.tvm_api import te, tirx, topi
from tvmconv.tvm_api.types import Expr, Tensor

# numerators of positions are 32-bit integers
_LARGEST = 1 << 30


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

    ``method`` is ``nearest_neighbor``, ``linear`` or ``cubic``. Positions of ``linear`` are exact
    or in FP64, others in FP32.
    """
    exact = ("half_pixel", "align_corners", "asymmetric")
    if method == "linear" and coordinate_transformation_mode in exact and 1 not in size:
        return _linear(data, size, coordinate_transformation_mode)
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


def _linear(data: Tensor, size: tuple[int, int], transform: str) -> Tensor:
    n, blocks, height, width, lanes = (int(d) for d in data.shape)

    def element(image: Expr, block: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        rows, down = _neighbors(h, height, size[0], transform)
        columns, right = _neighbors(w, width, size[1], transform)
        lines = []
        for row in rows:
            left, other = (data[image, block, row, column, c] for column in columns)
            lines.append(_between(left, other, right))
        return tirx.Cast(str(data.dtype), _between(lines[0], lines[1], down))

    return te.compute((n, blocks, *size, lanes), element, name="resize")


def _neighbors(place: Expr, size: int, length: int, transform: str) -> tuple[list[Expr], Expr]:
    """The two elements of an axis between which an output is, and how far it is from the first."""
    # the position is (place * step + first) / below
    step, first, below = {
        "half_pixel": (2 * size, size - length, 2 * length),
        "align_corners": (size - 1, 0, length - 1),
        "asymmetric": (size, 0, length),
    }[transform]
    common = gcd(step, first, below)
    step, first, below = step // common, first // common, below // common
    if below & (below - 1) == 0 and size * below < _LARGEST:
        # shifts; one element further on, so that they are of positive numbers
        above = tirx.Cast("int32", place) * step + (first + below)
        low, share = above // below - 1, tirx.Cast("float32", above % below) * _float(1 / below)
    else:
        # steps of FP32 numbers are too large
        position = tirx.Cast("float64", place) * tirx.const(step / below, "float64")
        position = position + tirx.const(first / below, "float64")
        whole = tirx.floor(position)
        low, share = tirx.Cast("int32", whole), tirx.Cast("float32", position - whole)
    return [tirx.max(tirx.min(low + number, size - 1), 0) for number in (0, 1)], share


def _between(first: Expr, second: Expr, share: Expr) -> Expr:
    return first * (_float(1.0) - share) + second * share


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")
