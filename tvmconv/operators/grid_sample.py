"""Samples of planes at points that are computed while the model runs.

Places and weights of a block of points are computed once for all channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

from tvmconv.operators.pool import tree
from tvmconv.operators.row_groups import PIECE
from tvmconv.operators.row_vectors import side_by_side
from tvmconv.operators.vector_loops import blocks, pieces, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# points whose places and weights the nearest cache holds
_POINTS = 512
_TAPS = {"nearest": 1, "bilinear": 4}
# channels that share the loads of places and weights
_CHANNELS = 4


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How images of ``size`` (H, W) are sampled at points from -1 to 1.

    ``method`` is ``bilinear``, or ``nearest``: the element whose center is nearest, of two equally
    near ones that with the even index. With ``border``, points outside of the image are moved to
    its border; otherwise what is outside is zero. With ``align_corners``, -1 and 1 are the centers
    of the outermost elements, not their outer edges.
    """

    size: tuple[int, int]
    method: str
    border: bool
    align_corners: bool


def plane_samples(data: Tensor, grid: Tensor, sampling: Sampling) -> Tensor:
    """Sample each channel at each point: ``(N, C, points)``.

    ``data`` is ``(N, C, H * W)`` of float32. ``grid`` is ``(N, 2, points)``: x, then y.
    """
    batch, channels = (int(extent) for extent in data.shape[:2])

    def sample(source: Any, result: Any, points: _Points) -> None:
        def each(start: Any, together: int) -> None:
            with T.serial(0, points.count) as point:
                for channel in range(together):
                    place = points.image, start + channel
                    element = partial(_element, source, place)
                    result[(*place, points.first + point)] = points.sample(element, point)

        blocks(channels, _CHANNELS, each)

    return _samples(data, grid, (batch, channels), sample, sampling)


def row_samples(
    data: Tensor, grid: Tensor, sampling: Sampling, lanes: int, transposed: str
) -> Tensor:
    """As :func:`plane_samples`, of images whose channels are neighbors: ``(N, H * W, C)``.

    A vector has several channels of a point. The samples of ``lanes`` points are transposed in the
    nearest cache. There are at least ``lanes`` points. ``transposed`` is the annotation of loops
    that copy squares in registers.
    """
    batch, channels = int(data.shape[0]), int(data.shape[2])

    def sample(source: Any, result: Any, points: _Points) -> None:
        stage = scratch(lanes * lanes, "float32")

        def group(channel: Any, width: int, begin: Any) -> None:
            with T.serial(0, lanes) as point, side_by_side(width) as lane:
                value = points.sample(
                    lambda spot: source[points.image, spot, channel + lane], begin + point
                )
                stage[point * width + lane] = value

            def write(first: Any, count: int) -> None:
                line = T.serial(0, lanes, annotations={transposed: 1})
                with line as point, side_by_side(count) as place:
                    value = stage[point * width + first + place]
                    target = points.image, channel + first + place
                    result[(*target, points.first + begin + point)] = value

            pieces(width, PIECE, write)

        def few(channel: Any, width: int) -> None:
            # few channels at a time: results of many are in as many pages
            with T.serial(0, (points.count + lanes - 1) // lanes) as number:
                group(channel, width, tirx.min(number * lanes, points.count - lanes))

        pieces(channels, lanes, few)

    return _samples(data, grid, (batch, channels), sample, sampling)


def _samples(
    data: Tensor,
    grid: Tensor,
    shape: tuple[int, int],
    sample: Callable[[Any, Any, _Points], None],
    sampling: Sampling,
) -> Tensor:
    """The function whose loops ``sample`` writes for each block of points.

    Lengths of blocks differ by at most one point, so that none of several has few.
    """
    points = int(grid.shape[2])
    parts = -(-points // _POINTS)
    shortest, longer = divmod(points, parts)

    def write(ins: Any, outs: Any) -> Any:
        source, where, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
        with IRBuilder() as builder:
            with shared(shape[0] * parts) as unit:
                block = _Points(sampling, -(-points // parts))
                block.image, part = unit // parts, unit % parts
                block.first = part * shortest + tirx.min(part, longer)
                block.count = shortest + tirx.Cast("int32", part < longer)
                block.place(where)
                sample(source, result, block)
            return builder.get()

    found: Any = te.extern(
        [(*shape, points)], [data, grid], write, dtype=["float32"], name="plane_samples"
    )
    return found


class _Points:
    """Places and weights of a block of points."""

    image: Any
    first: Any
    count: Any

    def __init__(self, sampling: Sampling, length: int) -> None:
        self.length, self._taps, self._sampling = length, _TAPS[sampling.method], sampling
        self._neighbor = _nearest if sampling.method == "nearest" else _neighbor

    def place(self, where: Any) -> None:
        """Compute all places, which of them are inside, and the weights of several taps.

        A point outside has the first place: vectors read the image before they select. A clamped
        index would not do, because TVM drops the bound that a condition implies.
        """
        taps, length, sampling = self._taps, self.length, self._sampling
        size = sampling.size
        spots, insides = (scratch(taps * length, "int32") for _ in range(2))
        weights = scratch(taps * length, "float32") if taps > 1 else None

        def position(coordinate: Any, extent: int) -> Any:
            if sampling.align_corners:
                value: Any = (coordinate + 1.0) * ((extent - 1) / 2)
            else:
                value = ((coordinate + 1.0) * float(extent) - 1.0) * 0.5
            return tirx.min(tirx.max(value, 0.0), float(extent - 1)) if sampling.border else value

        with T.serial(0, self.count) as point:
            x, y = (
                position(where[self.image, axis, self.first + point], size[1 - axis])
                for axis in range(2)
            )
            for tap in range(taps):
                column, across = self._neighbor(x, tap % 2, size[1])
                row, down = self._neighbor(y, tap // 2, size[0])
                inside = tirx.all(column >= 0, column < size[1], row >= 0, row < size[0])
                spots[tap * length + point] = tirx.Select(inside, row * size[1] + column, 0)
                insides[tap * length + point] = tirx.Cast("int32", inside)
                if weights is not None:
                    weights[tap * length + point] = across * down
        self._spots, self._insides, self._weights = spots, insides, weights

    def sample(self, element: Callable[[Any], Any], point: Any) -> Any:
        """The value at a point; ``element`` gives the image's value at a place."""
        values = []
        for tap in range(self._taps):
            place = tap * self.length + point
            value = element(self._spots[place])
            value = tirx.Select(self._insides[place] != 0, value, tirx.const(0.0, "float32"))
            if self._weights is not None:
                value = value * self._weights[place]
            values.append(value)
        return tree(values, add)


def _element(source: Any, place: tuple[Any, Any], spot: Any) -> Any:
    return source[(*place, spot)]


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
