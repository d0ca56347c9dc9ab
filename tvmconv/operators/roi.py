"""Pooling of regions of interest: RoiAlign and MaxRoiPool.

Vectors run over channels: images are ``(N, H * W, C)``. A few regions read the planes of
``(N, C, H * W)`` instead, element by element. Regions that are not inside the image, or are not
numbers, never make a read outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tvmconv.operators.registers import LANES, Registers
from tvmconv.operators.row_vectors import registers
from tvmconv.operators.vector_loops import blocks, ramp, scratch, shared, spread
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# vectors of channels whose results stay in registers
_VECTORS = 4
# coordinates beyond it are all outside of any image
_FAR = 1e7


@dataclass(frozen=True)
class RoiWindow:
    """How regions become bins.

    ``size`` is height and width of the image, ``bins`` rows and columns of the result. Coordinates
    of regions are multiplied by ``scale``. RoiAlign takes ``ratio`` samples of a bin along each
    axis, or with 0 as many as the bin has pixels. ``half_pixel`` moves regions by half a pixel.
    ``aligned`` is False for MaxRoiPool, which takes whole pixels.
    """

    size: tuple[int, int]
    bins: tuple[int, int]
    scale: float
    is_max: bool
    ratio: int = 0
    half_pixel: bool = False
    aligned: bool = True

    def reads_planes(self, regions: int, images: int) -> bool:
        """Whether so few pixels are read that moving all channels together would take longer."""
        rows, columns = self.size
        pixels = rows * columns
        if self.aligned and self.ratio:
            pixels = 4 * self.ratio**2 * self.bins[0] * self.bins[1]
        # a pixel that is read element by element takes as long as moving four of them
        return 4 * regions * pixels < images * rows * columns


def roi_pool(
    data: Tensor, rois: Tensor, batch: Tensor, existing: Tensor, window: RoiWindow
) -> Tensor:
    """Pool regions of images to ``(regions, C, rows, columns)``.

    ``data`` is ``(N, H * W, C)``, or ``(N, C * H * W)`` where the window reads planes.
    ``rois`` is ``(regions, 4)``: left, top, right and bottom. ``batch`` has the image of each
    region; a number that no image has is the nearest image. ``existing`` is one number: as
    many of the first regions are pooled.
    """
    regions, pixels = int(rois.shape[0]), window.size[0] * window.size[1]
    channels = int(data.shape[-1]) // (pixels if len(data.shape) == 2 else 1)
    shape = (regions, channels, window.bins[0] * window.bins[1])

    def write(ins: Any, outs: Any) -> Any:
        *operands, number = [T.buffer_proxy(buffer) for buffer in ins]
        buffers = [*operands, T.buffer_proxy(outs[0])]
        with IRBuilder() as builder:
            with shared(regions) as region:
                exists = tirx.Cast("int64", region) < number[0]
                with T.If(exists), T.Then():
                    _RoiLoops(buffers, window, data, channels, str(batch.dtype)).write(region)
            return builder.get()

    result: Any = te.extern(
        [shape], [data, rois, batch, existing], write, dtype=[str(data.dtype)], name="roi_pool"
    )
    return result


class _RoiLoops:
    """Writes the loops of one region."""

    def __init__(
        self, buffers: list[Any], window: RoiWindow, data: Tensor, channels: int, index: str
    ) -> None:
        self.data, self.rois, self.batch, self.result = buffers
        self.window, self.dtype, self.index = window, str(data.dtype), index
        self.images, self.channels = int(data.shape[0]), channels
        self.is_planar = len(data.shape) == 2

    def write(self, region: Any) -> None:
        rows, columns = self.window.bins
        first, last = (tirx.const(number, self.index) for number in (0, self.images - 1))
        number = self.batch[region]
        number = tirx.Select(number > first, number, first)  # the first image for NaN
        image = tirx.Cast("int32", tirx.Select(number < last, number, last))
        # begin and end of each bin's pixels or samples
        self.first = [scratch(bins, "int32") for bins in self.window.bins]
        self.end = [scratch(bins, "int32") for bins in self.window.bins]
        self.place = [scratch(3, self.dtype) for _ in range(2)]
        if self.window.aligned and not self.window.is_max:
            self.weights = [
                scratch(bins * size, self.dtype)
                for bins, size in zip(self.window.bins, self.window.size, strict=True)
            ]
            # the pixels of each bin whose weight is not 0
            self.pixels = [
                scratch(bins * size, "int32")
                for bins, size in zip(self.window.bins, self.window.size, strict=True)
            ]
        for axis in range(2):
            self._axis(region, axis)
        self.tile = scratch(rows * columns * _VECTORS * LANES, self.dtype)
        blocks(self.channels, _VECTORS * LANES, partial(self._block, region, image))

    def _number(self, value: float) -> Any:
        return tirx.const(value, self.dtype)

    def _clamped(self, value: Any) -> Any:
        """A coordinate near the image; NaN is outside, too."""
        far = self._number(_FAR)
        low = tirx.Select(value > -far, value, -far)
        return tirx.Select(low < far, low, far)

    def _rounded(self, value: Any) -> Any:
        """The nearest integer; a number between two integers goes away from zero."""
        half = self._number(0.5)
        up, down = tirx.floor(value + half), tirx.ceil(value - half)
        return tirx.Select(value < self._number(0.0), down, up)

    def _axis(self, region: Any, axis: int) -> None:
        window, place = self.window, self.place[axis]
        bins = window.bins[axis]
        begin, end = (
            self._clamped(self.rois[region, 1 - axis + side] * self._number(window.scale))
            for side in (0, 2)
        )
        if not window.aligned:
            self._whole_pixels(axis, begin, end)
            return
        half = self._number(0.5 if window.half_pixel else 0.0)
        place[0] = begin - half
        place[1] = end - begin
        if not window.half_pixel:
            # a region without area is one pixel
            place[1] = tirx.max(place[1], self._number(1.0))
        place[1] = place[1] / self._number(float(bins))
        if window.ratio:
            place[2] = self._number(float(window.ratio))
        else:
            place[2] = tirx.max(tirx.ceil(place[1]), self._number(0.0))
        with T.serial(0, bins) as bin_:
            self._samples(axis, bin_)
            if not window.is_max:
                self._axis_weights(axis, bin_)

    def _whole_pixels(self, axis: int, begin: Any, end: Any) -> None:
        """The pixels of bins of MaxRoiPool."""
        window, place = self.window, self.place[axis]
        bins, size = window.bins[axis], window.size[axis]
        place[0] = self._rounded(begin)
        place[1] = tirx.max(self._rounded(end) - place[0] + self._number(1.0), self._number(1.0))
        place[1] = place[1] / self._number(float(bins))
        with T.serial(0, bins) as bin_:
            number = tirx.Cast(self.dtype, bin_)
            low = tirx.floor(number * place[1]) + place[0]
            high = tirx.ceil((number + self._number(1.0)) * place[1]) + place[0]
            self.first[axis][bin_] = self._within(low, size)
            self.end[axis][bin_] = self._within(high, size)

    def _within(self, value: Any, most: int) -> Any:
        """A number as an integer from 0 to ``most``."""
        near = tirx.min(tirx.max(value, self._number(0.0)), self._number(float(most)))
        return tirx.Cast("int32", near)

    def _samples(self, axis: int, bin_: Any) -> None:
        """Begin and end of a bin's samples that may be inside of the image."""
        window, place = self.window, self.place[axis]
        if window.ratio:
            self.first[axis][bin_] = tirx.const(0, "int32")
            self.end[axis][bin_] = tirx.const(window.ratio, "int32")
            return
        one, size = self._number(1.0), self._number(float(window.size[axis]))
        start = place[0] + tirx.Cast(self.dtype, bin_) * place[1]
        count = tirx.max(place[2], one)
        step = tirx.max(place[1], self._number(1e-6)) / count
        # one more on each side, because of rounding
        low = tirx.floor((-one - start) / step) - one
        high = tirx.ceil((size - start) / step) + one
        self.first[axis][bin_] = self._within(tirx.min(low, place[2]), int(_FAR))
        self.end[axis][bin_] = self._within(tirx.min(high, place[2]), int(_FAR))

    def _sample(self, axis: int, bin_: Any, sample: Any) -> tuple[Any, Any, Any, Any]:
        """A sample: whether it is inside, its two pixels, and the second one's weight."""
        place, size = self.place[axis], self.window.size[axis]
        number = tirx.Cast(self.dtype, bin_)
        within = tirx.Cast(self.dtype, sample) + self._number(0.5)
        value = place[0] + number * place[1] + within * place[1] / place[2]
        inside = tirx.all(value >= self._number(-1.0), value <= self._number(float(size)))
        near = tirx.min(tirx.max(value, self._number(0.0)), self._number(float(size - 1)))
        low = tirx.Cast("int32", near)
        part = near - tirx.Cast(self.dtype, low)
        return inside, low, tirx.min(low + 1, size - 1), part

    def _axis_weights(self, axis: int, bin_: Any) -> None:
        """The weights of pixels in the mean of a bin's samples, and these pixels in succession.

        A bin that is larger than its samples has pixels between them, which are left out.
        """
        size, weights = self.window.size[axis], self.weights[axis]
        row = bin_ * size
        with T.serial(0, size) as pixel:
            weights[row + pixel] = self._number(0.0)
        ends = registers(2, "int32")
        ends[0] = tirx.const(size, "int32")
        ends[1] = tirx.const(0, "int32")
        first, end = self.first[axis][bin_], self.end[axis][bin_]
        with T.serial(0, tirx.max(end - first, 0)) as number:
            inside, low, high, part = self._sample(axis, bin_, first + number)
            with T.If(inside), T.Then():
                count = self.place[axis][2]
                weights[row + low] = weights[row + low] + (self._number(1.0) - part) / count
                weights[row + high] = weights[row + high] + part / count
                ends[0] = tirx.min(ends[0], low)
                ends[1] = tirx.max(ends[1], high + 1)
        count = registers(1, "int32")
        count[0] = tirx.const(0, "int32")
        with T.serial(0, tirx.max(ends[1] - ends[0], 0)) as number:
            pixel = ends[0] + number
            with T.If(weights[row + pixel] != self._number(0.0)), T.Then():
                weights[row + count[0]] = weights[row + pixel]
                self.pixels[axis][row + count[0]] = pixel
                count[0] = count[0] + 1
        self.first[axis][bin_] = tirx.const(0, "int32")
        self.end[axis][bin_] = count[0]

    def _load(self, image: Any, pixel: Any, channel: Any, lanes: int) -> Any:
        """A pixel of neighboring channels."""
        if not self.is_planar:
            return self.data[image, pixel, ramp(channel, lanes)]
        pixels = self.window.size[0] * self.window.size[1]
        return self.data[image, ramp(channel * pixels + pixel, lanes, pixels)]

    def _block(self, region: Any, image: Any, start: Any, width: int) -> None:
        """All bins of neighboring channels, through a tile of channels that are contiguous."""
        rows, columns = self.window.bins
        with T.serial(0, rows * columns) as bin_:
            place = (bin_ // columns, bin_ % columns)
            if self.window.is_max and self.window.aligned:
                self._largest_sample(image, place, bin_ * width, start, width)
            else:
                self._pixels(image, place, bin_ * width, start, width)
        with T.serial(0, width) as channel, T.serial(0, rows * columns) as bin_:
            self.result[region, start + channel, bin_] = self.tile[bin_ * width + channel]

    def _pixels(
        self, image: Any, place: tuple[Any, Any], target: Any, start: Any, width: int
    ) -> None:
        """The weighted sum, or the largest, of a bin's pixels."""
        window = self.window
        total = self._registers(self._number(0.0), width)
        (top, bottom), (left, right) = (
            (self.first[axis][place[axis]], self.end[axis][place[axis]]) for axis in range(2)
        )
        if window.is_max:
            empty = tirx.any(bottom <= top, right <= left)
            low = tirx.min_value(self.dtype)
            total.fill(tirx.Select(empty, self._number(0.0), low))
        with T.grid(tirx.max(bottom - top, 0), tirx.max(right - left, 0)) as (row, column):
            if window.is_max:
                pixel = (top + row) * window.size[1] + left + column
                total.update(
                    lambda old, shift, lanes: tirx.max(
                        old, self._load(image, pixel, start + shift, lanes)
                    )
                )
            else:
                places = [
                    place[axis] * window.size[axis] + number
                    for axis, number in enumerate((row, column))
                ]
                y, x = (self.pixels[axis][places[axis]] for axis in range(2))
                weight = self.weights[0][places[0]] * self.weights[1][places[1]]
                pixel = y * window.size[1] + x
                total.update(
                    lambda old, shift, lanes: (
                        old + self._load(image, pixel, start + shift, lanes) * spread(weight, lanes)
                    )
                )
        total.store(self.tile, target)

    def _largest_sample(
        self, image: Any, place: tuple[Any, Any], target: Any, start: Any, width: int
    ) -> None:
        """The largest weighted pixel of all samples; samples outside of the image are zero."""
        total = self._registers(tirx.min_value(self.dtype), width)
        count = [self.end[axis][place[axis]] - self.first[axis][place[axis]] for axis in range(2)]
        zero = registers(1, "int32")
        whole = [tirx.Cast(self.dtype, count[axis]) == self.place[axis][2] for axis in range(2)]
        used = [extent > 0 for extent in count]
        zero[0] = tirx.Cast("int32", tirx.Not(tirx.all(*whole, *used)))
        columns = self.window.size[1]
        with T.grid(tirx.max(count[0], 0), tirx.max(count[1], 0)) as (row, column):
            samples = [
                self._sample(axis, place[axis], self.first[axis][place[axis]] + number)
                for axis, number in enumerate((row, column))
            ]
            (inside_y, top, bottom, down), (inside_x, left, right, across) = samples
            one = self._number(1.0)
            taps = [
                (y * columns + x, v * u)
                for y, v in ((top, one - down), (bottom, down))
                for x, u in ((left, one - across), (right, across))
            ]

            def larger(old: Any, shift: int, lanes: int) -> Any:
                for pixel, weight in taps:
                    value = self._load(image, pixel, start + shift, lanes)
                    old = tirx.max(old, value * spread(weight, lanes))
                return old

            with T.If(tirx.all(inside_y, inside_x)):
                with T.Then():
                    total.update(larger)
                with T.Else():
                    zero[0] = tirx.const(1, "int32")
        bound = tirx.Select(zero[0] > 0, self._number(0.0), tirx.min_value(self.dtype))
        total.update(lambda old, _, lanes: tirx.max(old, spread(bound, lanes)))
        total.store(self.tile, target)

    def _registers(self, value: Any, width: int) -> Registers:
        total = Registers(width, self.dtype)
        total.fill(value)
        return total
