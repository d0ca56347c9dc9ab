"""The columns of deformable convolution: bilinear samples at places that a network computes.

Images are ``(N, H * W, C)``, so that vectors run over channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd
from operator import add
from typing import Any

from tvmconv.operators.pool import tree
from tvmconv.operators.registers import LANES
from tvmconv.operators.vector_loops import pieces, ramp, spread, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

_Pair = tuple[int, int]


@dataclass(frozen=True)
class DeformedWindow:
    """A window of two dimensions; ``offset_groups`` parts of the channels have own offsets."""

    size: _Pair
    kernel: _Pair
    strides: _Pair
    dilations: _Pair
    begin: _Pair
    output: _Pair
    groups: int
    offset_groups: int


def deformed_columns(
    data: Tensor, offsets: Tensor, mask: Tensor | None, window: DeformedWindow
) -> Tensor:
    """Sample ``(N, H * W, C)`` into ``(N, groups, points, taps * C / groups)``.

    ``offsets`` is ``(N, offset_groups, taps, 2, points)``, rows before columns. ``mask`` is
    ``(N, offset_groups, taps, points)`` and multiplies the samples. Outside the image is zero.
    """
    batch, _, channels = (int(size) for size in data.shape)
    points = window.output[0] * window.output[1]
    taps = window.kernel[0] * window.kernel[1]
    shape = (batch, window.groups, points, taps * channels // window.groups)
    operands = [data, offsets] if mask is None else [data, offsets, mask]

    def write(ins: Any, outs: Any) -> Any:
        buffers = [T.buffer_proxy(buffer) for buffer in (*ins, *outs)]
        loops = _ColumnLoops(buffers, window, channels, str(data.dtype))
        return tasks(batch * points, taps * channels, lambda: None, loops.point)

    result: Any = te.extern([shape], operands, write, dtype=[str(data.dtype)], name="columns")
    return result


class _ColumnLoops:
    """Writes the loops of one point of the output."""

    def __init__(
        self, buffers: list[Any], window: DeformedWindow, channels: int, dtype: str
    ) -> None:
        self.data, self.offsets, *masks, self.result = buffers
        self.mask = masks[0] if masks else None
        self.window, self.dtype = window, dtype
        self.in_group = channels // window.groups
        self.in_offset_group = channels // window.offset_groups
        # neighboring channels that have one offset and are neighbors in the result
        self.run = gcd(self.in_group, self.in_offset_group)

    def point(self, unit: Any) -> None:
        window = self.window
        points = window.output[0] * window.output[1]
        image, point = unit // points, unit % points
        taps = window.kernel[0] * window.kernel[1]
        with T.grid(taps, window.offset_groups) as (tap, part):
            self._tap(image, point, tap, part)

    def _tap(self, image: Any, point: Any, tap: Any, part: Any) -> None:
        window = self.window
        near = []
        for axis, (place, step) in enumerate(
            (
                (point // window.output[1], tap // window.kernel[1]),
                (point % window.output[1], tap % window.kernel[1]),
            )
        ):
            start = place * window.strides[axis] + step * window.dilations[axis]
            whole = tirx.Cast(self.dtype, start - window.begin[axis])
            near.append(self._near(whole + self.offsets[image, part, tap, axis, point], axis))
        (top, down), (left, across) = near
        one = tirx.const(1, self.dtype)
        factor = one if self.mask is None else self.mask[image, part, tap, point]
        corners = [
            (top + y, left + x, (down if y else one - down) * (across if x else one - across))
            for y in range(2)
            for x in range(2)
        ]
        height, width = window.size
        inside = tirx.all(top >= 0, top < height - 1, left >= 0, left < width - 1)
        with T.serial(0, self.in_offset_group // self.run) as number:
            channel = part * self.in_offset_group + number * self.run
            group, first = channel // self.in_group, channel % self.in_group
            target = (image, group, point, tap * self.in_group + first)
            with T.If(inside):
                with T.Then():
                    pieces(
                        self.run, LANES,
                        partial(self._copy, target, channel, corners, factor, False),
                    )  # fmt: skip
                with T.Else():
                    pieces(
                        self.run, LANES,
                        partial(self._copy, target, channel, corners, factor, True),
                    )  # fmt: skip

    def _near(self, value: Any, axis: int) -> tuple[Any, Any]:
        """The integer below a coordinate, and the rest; far points come near."""
        low, high = (tirx.const(float(bound), self.dtype) for bound in (-2, self.window.size[axis]))
        # NaN is outside, too
        bounded = tirx.Select(value > low, value, low)
        bounded = tirx.Select(bounded < high, bounded, high)
        floor = tirx.floor(bounded)
        return tirx.Cast("int32", floor), bounded - floor

    def _copy(
        self, target: tuple[Any, ...], channel: Any, corners: list[Any], factor: Any,
        guarded: bool, start: Any, lanes: int,
    ) -> None:  # fmt: skip
        """The samples of some channels."""
        image, group, point, place = target
        height, width = self.window.size
        values = []
        for y, x, weight in corners:
            row, column = y, x
            if guarded:
                row = tirx.min(tirx.max(y, 0), height - 1)
                column = tirx.min(tirx.max(x, 0), width - 1)
            value = self.data[image, row * width + column, ramp(channel + start, lanes)]
            if guarded:
                inside = tirx.all(y >= 0, y < height, x >= 0, x < width)
                zero = spread(tirx.const(0, self.dtype), lanes)
                value = tirx.if_then_else(inside, value, zero)
            values.append(value * spread(weight * factor, lanes))
        self.result[image, group, point, ramp(place + start, lanes)] = tree(values, add)
