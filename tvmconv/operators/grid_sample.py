"""Samples of planes at points that are computed while the model runs.

Places and weights of a block of points are computed once for all channels.
"""

from __future__ import annotations

from operator import add
from typing import Any

from tvmconv.operators.pool import tree
from tvmconv.operators.vector_loops import blocks, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# points whose places and weights the nearest cache holds
_POINTS = 512
_TAPS = {"nearest": 1, "bilinear": 4}
# channels that share the loads of places and weights
_CHANNELS = 4


def plane_samples(
    data: Tensor,
    grid: Tensor,
    size: tuple[int, int],
    method: str,
    *,
    border: bool,
    align_corners: bool,
) -> Tensor:
    """Sample each channel at each point: ``(N, C, points)``.

    ``data`` is ``(N, C, H * W)`` of float32, and ``size`` is H and W. ``grid`` is
    ``(N, 2, points)``: x, then y, from -1 to 1. ``method`` is ``bilinear``, or ``nearest``: the
    element whose center is nearest, of two equally near ones that with the even index. With
    ``border``, points outside of the image are moved to its border; otherwise what is outside is
    zero. With ``align_corners``, -1 and 1 are the centers of the outermost elements, not their
    outer edges.
    """
    batch, channels = (int(extent) for extent in data.shape[:2])
    taps, neighbor = _TAPS[method], _nearest if method == "nearest" else _neighbor
    points = int(grid.shape[2])
    block = min(points, _POINTS)
    parts = -(-points // block)

    def place(coordinate: Any, extent: int) -> Any:
        if align_corners:
            value: Any = (coordinate + 1.0) * ((extent - 1) / 2)
        else:
            value = ((coordinate + 1.0) * float(extent) - 1.0) * 0.5
        return tirx.min(tirx.max(value, 0.0), float(extent - 1)) if border else value

    def write(ins: Any, outs: Any) -> Any:
        source, where, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
        units = batch * parts

        with IRBuilder() as builder:
            with shared(units) as unit:
                image, first = unit // parts, unit % parts * block
                count = tirx.min(block, points - first)
                spots = scratch(taps * block, "int32")
                weights = scratch(taps * block, "float32") if taps > 1 else None
                with T.serial(0, count) as point:
                    x, y = (
                        place(where[image, axis, first + point], size[1 - axis])
                        for axis in range(2)
                    )
                    for tap in range(taps):
                        column, across = neighbor(x, tap % 2, size[1])
                        row, down = neighbor(y, tap // 2, size[0])
                        inside = tirx.all(column >= 0, column < size[1], row >= 0, row < size[0])
                        spot = tirx.Select(inside, row * size[1] + column, -1)
                        spots[tap * block + point] = spot
                        if weights is not None:
                            weights[tap * block + point] = across * down

                def sample(start: Any, together: int) -> None:
                    with T.serial(0, count) as point:
                        for channel in range(together):
                            values = []
                            for tap in range(taps):
                                spot = spots[tap * block + point]
                                value = source[image, start + channel, tirx.max(spot, 0)]
                                value = tirx.Select(spot >= 0, value, tirx.const(0.0, "float32"))
                                if weights is not None:
                                    value = value * weights[tap * block + point]
                                values.append(value)
                            total = tree(values, add)
                            result[image, start + channel, first + point] = total

                blocks(channels, _CHANNELS, sample)
            return builder.get()

    shape = (batch, channels, points)
    found: Any = te.extern([shape], [data, grid], write, dtype=["float32"], name="plane_samples")
    return found


def _neighbor(value: Any, side: int, extent: int) -> tuple[Any, Any]:
    """The index of a neighbor, -1 or ``extent`` where it is outside, and its weight."""
    low = tirx.floor(value)
    part = value - low
    # huge numbers have no integer
    near = tirx.Cast("int32", tirx.min(tirx.max(low, -2.0), float(extent)))
    return near + side, part if side else 1.0 - part


def _nearest(value: Any, _: int, extent: int) -> tuple[Any, Any]:
    """The index of the nearest element, -1 or ``extent`` where it is outside, and its weight."""
    near = tirx.nearbyint(tirx.min(tirx.max(value, -1.0), float(extent)))
    return tirx.Cast("int32", near), 1.0
