"""The copy of the image for AMX kernels, in the byte order of tiles.

A row of a tile has the bytes that one instruction reduces for one output position. In most layers
these are 64 channels of one tap, which the blocked layout stores apart. A stem has so few channels
that a row has several taps: some rows of the image, which the copy interleaves, and consecutive
columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.integer.dwords import WIDEN, copied_steps
from tvmconv.algorithms.operands import DWORD_BYTES, Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.machines.tile_unit import TileUnit
from tvmconv.tvm_api.types import Expr, Index, Tensor


def tiles_of(machine: Machine) -> TileUnit:
    """The AMX unit of a machine that must have one."""
    assert machine.tiles is not None
    return machine.tiles


def is_pixelwise(workload: Conv2dWorkload) -> bool:
    """Whether a kernel treats all positions of an image as one row, without padding."""
    return (workload.kernel_h, workload.kernel_w) == (1, 1)


def plane(workload: Conv2dWorkload) -> tuple[int, int]:
    """Rows and columns of the output in the kernel's loops."""
    if is_pixelwise(workload):
        return 1, workload.out_height * workload.out_width
    return workload.out_height, workload.out_width


def padded_plane(workload: Conv2dWorkload, config: Config) -> tuple[int, int]:
    """Rows and columns of the output, rounded up to whole groups of tiles."""
    height, width = plane(workload)
    rows, columns = config.int("oh"), config.int("ow") * config.int("side")
    return -(-height // rows) * rows, -(-width // columns) * columns


def tile_copy(workload: Conv2dWorkload, machine: Machine) -> TileCopy:
    """The copy for a layer's kernel."""
    w = workload
    dwords = tiles_of(machine).row_bytes // DWORD_BYTES
    taps = not is_pixelwise(w) and w.in_channels <= DWORD_BYTES and w.kernel_w <= dwords
    if taps and (w.dilation_h, w.dilation_w) == (1, 1):
        return TapsSideBySide(w, machine)
    return ChannelsTogether(w, machine)


@dataclass(frozen=True)
class TileCopy(ABC):
    """A copy of the image for the tiles of a dense INT8 layer, on a CPU with AMX."""

    workload: Conv2dWorkload
    machine: Machine

    @property
    @abstractmethod
    def steps(self) -> tuple[int, ...]:
        """Extents of the reduction axes, without the axes inside a tile."""

    @abstractmethod
    def shape(self, config: Config) -> tuple[int, ...]:
        """Shape of the copy."""

    @abstractmethod
    def place(
        self, n: Expr, h: Expr, x: Expr, step: Sequence[Expr], config: Config, byte: Expr
    ) -> tuple[Index, ...]:
        """The index in the copy of a byte of an output position's row."""

    @abstractmethod
    def copied(self, given: Operands, config: Config) -> Tensor:
        """Block ``widen``, the copy.

        Bytes outside the image that are not padding only contribute to results that are discarded.
        """

    @abstractmethod
    def rows(self, weight: FloatArray) -> FloatArray:
        """An OIHW weight as ``(K, *steps, 16 dwords, 4)``, padded with zeros."""

    @property
    def count(self) -> int:
        """The number of products that are added to each tile of accumulators."""
        return prod(self.steps)

    def bytes(self, config: Config) -> int:
        """Bytes of the copy."""
        return prod(self.shape(config))


class ChannelsTogether(TileCopy):
    """``(N, C/64, H, phases, W, 64)``: 64 channels of a position are one row of a tile.

    In strided layers, the columns that one tap reads are adjacent and form a phase.
    """

    @property
    def blocks(self) -> int:
        """Rows of tiles that hold all channels of a position."""
        return -(-self.workload.in_channels // tiles_of(self.machine).row_bytes)

    @property
    def steps(self) -> tuple[int, ...]:
        """Kernel rows, kernel columns, blocks of channels."""
        return self.workload.kernel_h, self.workload.kernel_w, self.blocks

    def shape(self, config: Config) -> tuple[int, ...]:
        """See the class."""
        w = self.workload
        height, width = padded_plane(w, config)
        rows, phases, columns = 1, 1, width
        if not is_pixelwise(w):
            down, right = copied_steps(w)
            rows = ((height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h) // down + 1
            phases = w.stride_w // right
            columns = width + (w.kernel_w - 1) * w.dilation_w // phases
        return w.batch, self.blocks, rows, phases, columns, tiles_of(self.machine).row_bytes

    def place(
        self, n: Expr, h: Expr, x: Expr, step: Sequence[Expr], config: Config, byte: Expr
    ) -> tuple[Index, ...]:
        """See the base class."""
        w, (r, s, cb), phases = self.workload, step, self.shape(config)[3]
        down = 1 if w.kernel_h == 1 else w.stride_h
        column = s * w.dilation_w
        return n, cb, h * down + r * w.dilation_h, column % phases, x + column // phases, byte

    def copied(self, given: Operands, config: Config) -> Tensor:
        """See the base class."""
        from tvmconv.tvm_api import te, tirx

        w, shape = self.workload, self.shape(config)
        phases, block = shape[3], self.machine.channel_block
        last = self.machine.blocks(w.in_channels) - 1
        down, right = copied_steps(w)
        zero, area = None if given.zero is None else given.zero[0], w.out_height * w.out_width
        ends = (w.out_height - 1) * down - w.pad_top, (w.out_width - 1) * right - w.pad_left
        if not is_pixelwise(w):
            ends = (shape[2] - 1) * down - w.pad_top, (shape[4] * phases - 1) * right - w.pad_left

        def value(n: Expr, cb: Expr, y: Expr, phase: Expr, x: Expr, c: Expr) -> Expr:
            part = tirx.min(cb * (shape[5] // block) + c // block, last)
            if is_pixelwise(w):
                pixel = tirx.min(x, area - 1) if shape[4] > area else x
                row, column = pixel // w.out_width * down, pixel % w.out_width * right
            else:
                row, column = y * down, (x * phases + phase) * right
            row, column = row - w.pad_top, column - w.pad_left
            read = given.data[n, part, row, column, c % block]
            return zero_unless(image_tests(w, row, column, *ends), read, zero)

        return te.compute(shape, value, name=WIDEN)

    def rows(self, weight: FloatArray) -> FloatArray:
        """See the base class."""
        dwords = tiles_of(self.machine).row_bytes // DWORD_BYTES
        outputs, channels, *taps = weight.shape
        rows = np.zeros((outputs, self.blocks * dwords * DWORD_BYTES, *taps), weight.dtype)
        rows[:, :channels] = weight
        return rows.reshape(outputs, self.blocks, dwords, DWORD_BYTES, *taps).transpose(
            0, 4, 5, 1, 2, 3
        )


class TapsSideBySide(TileCopy):
    """``(N, H, W * R * 4)``: four channels of ``R`` rows of a column, then the next column.

    Rows of tiles overlap: the row of a position begins ``R * 4 * stride`` bytes after its
    neighbor's. ``R`` is the largest power of two for which the kernel's columns fit a row.
    """

    @property
    def high(self) -> int:
        """Image rows that are interleaved."""
        w, dwords = self.workload, tiles_of(self.machine).row_bytes // DWORD_BYTES
        fitting = [1]
        while fitting[-1] < w.kernel_h and 2 * fitting[-1] * w.kernel_w <= dwords:
            fitting.append(2 * fitting[-1])
        return fitting[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """Groups of kernel rows."""
        return (-(-self.workload.kernel_h // self.high),)

    @property
    def _down(self) -> int:
        """Image rows between consecutive rows of the copy."""
        return gcd(self.workload.stride_h, self.high)

    def shape(self, config: Config) -> tuple[int, ...]:
        """See the class."""
        w = self.workload
        height, width = padded_plane(w, config)
        last = (height - 1) * w.stride_h + (self.steps[0] - 1) * self.high
        dwords = tiles_of(self.machine).row_bytes // DWORD_BYTES
        columns = (width - 1) * w.stride_w + dwords // self.high
        return w.batch, last // self._down + 1, columns * self.high * DWORD_BYTES

    def place(
        self, n: Expr, h: Expr, x: Expr, step: Sequence[Expr], config: Config, byte: Expr
    ) -> tuple[Index, ...]:
        """See the base class."""
        w, down = self.workload, self._down
        row = h * (w.stride_h // down) + step[0] * (self.high // down)
        return n, row, x * (w.stride_w * self.high * DWORD_BYTES) + byte

    def copied(self, given: Operands, config: Config) -> Tensor:
        """See the base class."""
        from tvmconv.tvm_api import te

        w, high, (_, rows, size) = self.workload, self.high, self.shape(config)
        columns = size // (high * DWORD_BYTES)
        zero = None if given.zero is None else given.zero[0]
        ends = (rows - 1) * self._down + high - 1 - w.pad_top, columns - 1 - w.pad_left

        def value(n: Expr, y: Expr, z: Expr) -> Expr:
            row = y * self._down + z // DWORD_BYTES % high - w.pad_top
            column = z // (high * DWORD_BYTES) - w.pad_left
            read = given.data[n, 0, row, column, z % DWORD_BYTES]
            return zero_unless(image_tests(w, row, column, *ends), read, zero)

        return te.compute(self.shape(config), value, name=WIDEN)

    def rows(self, weight: FloatArray) -> FloatArray:
        """See the base class."""
        high, (steps,) = self.high, self.steps
        dwords = tiles_of(self.machine).row_bytes // DWORD_BYTES
        outputs, channels, height, width = weight.shape
        found = np.zeros((outputs, steps * high, dwords // high, DWORD_BYTES), weight.dtype)
        found[:, :height, :width, :channels] = weight.transpose(0, 2, 3, 1)
        found = found.reshape(outputs, steps, high, dwords // high, DWORD_BYTES)
        return found.transpose(0, 1, 3, 2, 4).reshape(outputs, steps, dwords, DWORD_BYTES)
