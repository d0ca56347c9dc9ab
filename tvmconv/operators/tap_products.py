"""Convolutions as products of all taps with all pixels, added where they belong.

A layer with few outputs leaves most of a vector of channels empty, and short rows leave most of a
vector of pixels empty. Here the rows of a matrix product are the taps of all outputs, and its
columns are all pixels of an image. No product has a pixel of the padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.operators.pixel_conv import FloatArray
from tvmconv.operators.pool import tree
from tvmconv.operators.vector_loops import blocks, grid, pieces, ramp, scratch, spread, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

# elements of the lines of a block of rows: the nearest cache holds them
_BUFFER_ELEMENTS = 4096


def has_tap_products(workload: Conv2dWorkload) -> bool:
    """Whether neighboring outputs read neighboring pixels, and each of them several."""
    w = workload
    several = w.kernel_d * w.kernel_h * w.kernel_w > 1
    return several and (w.stride_d, w.stride_h, w.stride_w) == (1, 1, 1)


def tap_rows(weight: FloatArray, workload: Conv2dWorkload) -> FloatArray:
    """``(K, C / G, T * R, S)`` to ``(G, K / G * T * R * S, C / G)``."""
    groups, (_, channels, *_) = workload.groups, weight.shape
    taps = weight.reshape(groups, -1, channels, weight.shape[2] * weight.shape[3])
    rows = taps.transpose(0, 1, 3, 2).reshape(groups, -1, channels)
    return np.ascontiguousarray(rows, np.float32)


def add_taps(data: Tensor, workload: Conv2dWorkload, lanes: int) -> Tensor:
    """Sums ``(N * OD, K, OH, OW)`` of the products ``(N * D, K, T * R, S, H, W)`` of a layer."""

    def write(ins: Any, outs: Any) -> Any:
        return _Sums(T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0]), workload, lanes).write()

    result: Any = te.extern(
        [workload.result_shape], [data], write, dtype=["float32"], name="add_taps"
    )
    return result


class _Sums:
    """The loops: a line for each column of the kernel, then the sums of shifted lines."""

    def __init__(self, data: Any, result: Any, workload: Conv2dWorkload, lanes: int) -> None:
        self.data, self.result, self.w, self.lanes = data, result, workload, lanes
        w = workload
        reach = w.out_width + (w.kernel_w - 1) * w.dilation_w
        self.pitch = max(w.pad_left + w.in_width, reach)
        self.line = w.kernel_w * self.pitch
        self.rows = max(1, min(w.out_height, _BUFFER_ELEMENTS // self.line))

    def write(self) -> Any:
        """All loops; a task is a number of planes of outputs."""
        planes = self.w.out_planes * self.w.out_channels
        work = self.w.kernel_d * self.w.kernel_h * self.w.out_height * self.line
        return tasks(planes, work, self._allocate, self._plane)

    def _allocate(self) -> None:
        """Lines with zeros around them, where nothing else is written."""
        self.lines = scratch(self.rows * self.line, "float32")
        pieces(self.rows * self.line, self.lanes, self._clear)

    def _clear(self, column: Any, width: int) -> None:
        self.lines[ramp(column, width)] = spread(tirx.const(0.0, "float32"), width)

    def _plane(self, unit: Any) -> None:
        plane, channel = unit // self.w.out_channels, unit % self.w.out_channels

        def block(start: Any, count: int) -> None:
            with T.serial(0, count) as row:
                self._add(plane, channel, start + row, row * self.line)
            # lines are stored before vectors that overlap two of them are read
            with T.serial(0, count) as row:
                self._finish(plane, channel, start + row, row * self.line)

        blocks(self.w.out_height, self.rows, block)

    def _add(self, plane: Any, channel: Any, row: Any, line: Any) -> None:
        """Add the products of a row of outputs, column of the kernel by column."""
        w = self.w
        with T.serial(0, w.kernel_w) as s:

            def clear(column: Any, width: int) -> None:
                self._clear(line + s * self.pitch + w.pad_left + column, width)

            pieces(w.in_width, self.lanes, clear)
        volume, depth = plane // w.out_depth, plane % w.out_depth
        with grid([w.kernel_d, w.kernel_h]) as (t, r):
            z = depth + t * w.dilation_d - w.pad_front
            y = row + r * w.dilation_h - w.pad_top
            inside = tirx.all(z >= 0, z < w.in_depth, y >= 0, y < w.in_height)
            with T.If(inside), T.Then(), T.serial(0, w.kernel_w) as s:

                def add(column: Any, width: int) -> None:
                    place = ramp(line + s * self.pitch + w.pad_left + column, width)
                    image, tap = volume * w.in_depth + z, t * w.kernel_h + r
                    product = self.data[image, channel, tap, s, y, ramp(column, width)]
                    self.lines[place] = self.lines[place] + product

                pieces(w.in_width, self.lanes, add, overlap=False)

    def _finish(self, plane: Any, channel: Any, row: Any, line: Any) -> None:
        w = self.w

        def finish(column: Any, width: int) -> None:
            values = [
                self.lines[ramp(line + s * (self.pitch + w.dilation_w) + column, width)]
                for s in range(w.kernel_w)
            ]
            total = tree(values, lambda a, b: a + b)
            self.result[plane, channel, row, ramp(column, width)] = total

        pieces(w.out_width, self.lanes, finish)
