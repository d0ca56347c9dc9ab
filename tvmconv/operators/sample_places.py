"""Places and weights of the elements of an image that are neighbors of a point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any

from tvmconv.operators.pool import tree
from tvmconv.operators.row_vectors import registers
from tvmconv.operators.vector_loops import ramp, scratch, spread
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# neighbors along each axis
_SIDES = {"nearest": 1, "bilinear": 2, "bicubic": 4}
# the coefficient of cubic convolution that torch and ONNX use
_CUBIC = -0.75


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How images of ``size`` (H, W) are sampled at points from -1 to 1.

    ``method`` is one of:

    - ``nearest``: the element whose center is nearest, of two equally near ones that with the even
      index,
    - ``bilinear``: between two columns and two rows,
    - ``bicubic``: between four columns and four rows, with the coefficient -0.75 of R. Keys, *Cubic
      Convolution Interpolation for Digital Image Processing*, IEEE Transactions on Acoustics,
      Speech, and Signal Processing 29, 1981.

    ``padding`` is one of:

    - ``zeros``: elements outside of the image are zero,
    - ``border``: points outside are moved to the border,
    - ``reflection``: points outside are mirrored at -1 and 1.

    ``bicubic`` moves or mirrors each neighbor of a point, not the point.

    With ``align_corners``, -1 and 1 are the centers of the outermost elements, not their outer
    edges. Points are finite.
    """

    size: tuple[int, int]
    method: str
    padding: str
    align_corners: bool


class Block:
    """A block of points: ``count`` from ``first`` on, at most ``length``."""

    image: Any
    first: Any
    count: Any

    def __init__(self, sampling: Sampling, length: int) -> None:
        self.length, self.sampling = length, sampling

    def position(self, where: Any, point: Any) -> list[Any]:
        """The column and the row of a point: numbers with a fraction."""
        sampling, found = self.sampling, []
        for axis in range(2):
            coordinate, extent = (
                where[self.image, axis, self.first + point],
                sampling.size[1 - axis],
            )
            if sampling.align_corners:
                value: Any = (coordinate + 1.0) * ((extent - 1) / 2)
            else:
                value = ((coordinate + 1.0) * float(extent) - 1.0) * 0.5
            if sampling.method != "bicubic":
                value = self.moved(value, extent)
            found.append(value)
        return found

    def moved(self, value: Any, extent: int) -> Any:
        """A place along an axis as the padding moves it: inside, but for ``zeros``."""
        if self.sampling.padding == "reflection":
            value = _mirrored(value, extent, self.sampling.align_corners)
        if self.sampling.padding != "zeros":
            value = tirx.min(tirx.max(value, 0.0), float(extent - 1))
        return value


class Points(Block):
    """Places and weights of a block of points."""

    def __init__(self, sampling: Sampling, length: int) -> None:
        super().__init__(sampling, length)
        self._sides = _SIDES[sampling.method]
        self._taps = self._sides**2

    def _neighbor(self, value: Any, side: int, extent: int) -> tuple[Any, Any]:
        """The index of a neighbor of a position, outside only for ``zeros``, and its weight."""
        if self.sampling.method == "nearest":
            return _nearest(value, extent), 1.0
        if self.sampling.method == "bilinear":
            return _neighbor(value, side, extent)
        low = tirx.floor(value)
        place = self.moved(low + float(side - 1), extent)
        # huge numbers have no integer
        place = tirx.min(tirx.max(place, -1.0), float(extent))
        return tirx.Cast("int32", place), _cubic_weight(value - low, side)

    def place(self, where: Any) -> None:
        """Compute all places, which of them are inside, and the weights of several taps.

        A point outside has the first place: vectors read the image before they select. A clamped
        index would not do, because TVM drops the bound that a condition implies.
        """
        taps, length, sampling = self._taps, self.length, self.sampling
        size = sampling.size
        spots, insides = (scratch(taps * length, "int32") for _ in range(2))
        weights = scratch(taps * length, "float32") if taps > 1 else None

        sides = self._sides
        with T.serial(0, self.count) as point:
            # computed once for all neighbors, whose expressions would repeat them
            position, shares = registers(2), registers(2 * sides)
            places = registers(2 * sides, "int32")
            for axis, value in enumerate(self.position(where, point)):
                position[axis] = value
                for side in range(sides):
                    found = self._neighbor(position[axis], side, size[1 - axis])
                    places[axis * sides + side], shares[axis * sides + side] = found
            for tap in range(taps):
                across, down = tap % sides, sides + tap // sides
                column, row = places[across], places[down]
                inside = tirx.all(column >= 0, column < size[1], row >= 0, row < size[0])
                spots[tap * length + point] = tirx.Select(inside, row * size[1] + column, 0)
                insides[tap * length + point] = tirx.Cast("int32", inside)
                if weights is not None:
                    weights[tap * length + point] = shares[across] * shares[down]
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


class Pairs(Block):
    """As :class:`Points`, of points between two columns and two rows.

    A pair of columns is inside of the image. Where only one neighbor of a point is, the other
    column of the pair counts for nothing.
    """

    def place(self, where: Any) -> None:
        """Compute the first columns of pairs, and which columns count, and their weights."""
        length, (height, width) = self.length, self.sampling.size
        self._spots = scratch(2 * length, "int32")
        self._insides, self._weights = (scratch(4 * length, kind) for kind in ("int32", "float32"))
        with T.serial(0, self.count) as point:
            x, y = self.position(where, point)
            near, before = _neighbor(x, 0, width)
            _, after = _neighbor(x, 1, width)
            start = tirx.max(tirx.min(near, width - 2), 0)
            for side in range(2):
                row, down = _neighbor(y, side, height)
                in_rows = tirx.all(row >= 0, row < height)
                self._spots[side * length + point] = tirx.Select(in_rows, row * width, 0) + start
                for half in range(2):
                    column = start + half
                    is_near = column == near
                    inside = tirx.all(in_rows, tirx.any(is_near, column == near + 1))
                    place = 2 * (side * length + point) + half
                    self._insides[place] = tirx.Cast("int32", inside)
                    self._weights[place] = tirx.Select(is_near, before, after) * down

    def sample(self, pair: Callable[[Any], Any], begin: Any, width: int) -> Any:
        """The values at ``width`` points; ``pair`` gives two columns of the image from a place."""
        halves, half = [], width // 2
        for first in (0, half):
            values = []
            for side in range(2):
                place = side * self.length + begin + first
                pairs = [pair(self._spots[place + point]) for point in range(half)]
                value = tirx.Shuffle(pairs, _lanes(0, 1, width)) if half > 1 else pairs[0]
                inside = self._insides[ramp(2 * place, width)] != spread(0, width)
                zero = spread(tirx.const(0.0, "float32"), width)
                value = tirx.Select(inside, value, zero)
                values.append(value * self._weights[ramp(2 * place, width)])
            halves.append(tree(values, add))
        columns = [tirx.Shuffle(halves, _lanes(side, 2, width)) for side in range(2)]
        return tree(columns, add)


def _lanes(first: int, step: int, count: int) -> list[Any]:
    return [tirx.const(first + step * lane, "int32") for lane in range(count)]


def _mirrored(value: Any, extent: int, align_corners: bool) -> Any:
    """A place between the edges; the image and its reflection repeat."""
    edge, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
    beyond: Any = tirx.abs(value - edge)
    beyond = beyond - tirx.floor(beyond * (0.5 / span)) * (2 * span)
    return tirx.min(beyond, 2 * span - beyond) + edge


def _neighbor(value: Any, side: int, extent: int) -> tuple[Any, Any]:
    """The index of a neighbor, -1 or ``extent`` where it is outside, and its weight."""
    low = tirx.floor(value)
    part = value - low
    # huge numbers have no integer
    near = tirx.Cast("int32", tirx.min(tirx.max(low, -2.0), float(extent)))
    return near + side, part if side else 1.0 - part


def _nearest(value: Any, extent: int) -> Any:
    """The index of the nearest element, -1 or ``extent`` where it is outside."""
    return tirx.Cast("int32", tirx.nearbyint(tirx.min(tirx.max(value, -1.0), float(extent))))


def _cubic_weight(part: Any, side: int) -> Any:
    """The weight of one of four neighbors; ``part`` is the distance from the second one."""
    if side in (1, 2):
        near = part if side == 1 else 1.0 - part
        return ((_CUBIC + 2) * near - (_CUBIC + 3)) * near * near + 1.0
    far = part + 1.0 if side == 0 else 2.0 - part
    return ((_CUBIC * far - 5 * _CUBIC) * far + 8 * _CUBIC) * far - 4 * _CUBIC
