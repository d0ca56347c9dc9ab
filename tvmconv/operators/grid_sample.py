"""Samples of planes at points that are computed while the model runs.

Places and weights of a block of points are computed once for all channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvmconv.operators.row_groups import PIECE
from tvmconv.operators.row_vectors import side_by_side
from tvmconv.operators.sample_places import Pairs, Points, Sampling
from tvmconv.operators.vector_loops import blocks, pieces, ramp, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# points whose places and weights the nearest cache holds
_POINTS = 512
# channels that share the loads of places and weights
_CHANNELS = 4


def plane_samples(data: Tensor, grid: Tensor, sampling: Sampling, lanes: int = 0) -> Tensor:
    """Sample each channel at each point: ``(N, C, points)``.

    ``data`` is ``(N, C, H * W)`` of float32. ``grid`` is ``(N, 2, points)``: x, then y. ``lanes``
    are elements of a vector, or 0 if vectors have no known length.
    """
    batch, channels = (int(extent) for extent in data.shape[:2])
    points = int(grid.shape[2])
    width = min(lanes, 1 << (points // _parts_of(points)).bit_length() - 1)
    if sampling.method == "bilinear" and sampling.size[1] > 1 and width > 1:
        return _pair_samples(data, grid, sampling, width)

    def sample(source: Any, result: Any, points: Points) -> None:
        def each(start: Any, together: int) -> None:
            with T.serial(0, points.count) as point:
                for channel in range(together):
                    place = points.image, start + channel
                    element = partial(_element, source, place)
                    result[(*place, points.first + point)] = points.sample(element, point)

        blocks(channels, _CHANNELS, each)

    return _samples(data, grid, (batch, channels), sample, sampling, Points)


def _pair_samples(data: Tensor, grid: Tensor, sampling: Sampling, width: int) -> Tensor:
    """As :func:`plane_samples`, of ``width`` points at a time, whose neighbors are read in pairs.

    A vector has two columns of half of the points.
    """
    batch, channels = (int(extent) for extent in data.shape[:2])

    def sample(source: Any, result: Any, points: Pairs) -> None:
        def each(start: Any, together: int) -> None:
            with T.serial(0, (points.count + width - 1) // width) as number:
                begin = tirx.min(number * width, points.count - width)
                for channel in range(together):
                    place = points.image, start + channel
                    value = points.sample(partial(_pair, source, place), begin, width)
                    result[(*place, ramp(points.first + begin, width))] = value

        blocks(channels, _CHANNELS, each)

    return _samples(data, grid, (batch, channels), sample, sampling, Pairs)


def row_samples(
    data: Tensor, grid: Tensor, sampling: Sampling, lanes: int, transposed: str
) -> Tensor:
    """As :func:`plane_samples`, of images whose channels are neighbors: ``(N, H * W, C)``.

    A vector has several channels of a point. The samples of ``lanes`` points are transposed in the
    nearest cache. There are at least ``lanes`` points. ``transposed`` is the annotation of loops
    that copy squares in registers.
    """
    batch, channels = int(data.shape[0]), int(data.shape[2])

    def sample(source: Any, result: Any, points: Points) -> None:
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

    return _samples(data, grid, (batch, channels), sample, sampling, Points)


def _samples(
    data: Tensor,
    grid: Tensor,
    shape: tuple[int, int],
    sample: Callable[[Any, Any, Any], None],
    sampling: Sampling,
    form: Callable[[Sampling, int], Any],
) -> Tensor:
    """The function whose loops ``sample`` writes for each block of points.

    Lengths of blocks differ by at most one point, so that none of several has few.
    """
    points = int(grid.shape[2])
    parts = _parts_of(points)
    shortest, longer = divmod(points, parts)

    def write(ins: Any, outs: Any) -> Any:
        source, where, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
        with IRBuilder() as builder:
            with shared(shape[0] * parts) as unit:
                block = form(sampling, -(-points // parts))
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


def _parts_of(points: int) -> int:
    """The blocks of all points."""
    return -(-points // _POINTS)


def _element(source: Any, place: tuple[Any, Any], spot: Any) -> Any:
    return source[(*place, spot)]


def _pair(source: Any, place: tuple[Any, Any], spot: Any) -> Any:
    return source[(*place, ramp(spot, 2))]
