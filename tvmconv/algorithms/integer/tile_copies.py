"""What products of tiles read: the image once more, in the order in which a tile has its bytes.

A row of a tile is what one instruction sums over for one pixel of the output. Of most layers these
are 64 channels of one tap, which blocks of fewer channels hold apart. First layers have so few
channels that a row has several taps: those of some rows of the image, which the copy puts side by
side, and of the columns behind each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.integer.dwords import WIDEN, copied_steps
from tvmconv.algorithms.operands import WORD_BYTES, Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.machines.tile_unit import TileUnit
from tvmconv.tvm_api.types import Expr, Index, Tensor


def tiles_of(machine: Machine) -> TileUnit:
    """The unit of a machine that has one."""
    assert machine.tiles is not None
    return machine.tiles


def is_pixelwise(workload: Conv2dWorkload) -> bool:
    """Whether a kernel takes all pixels of an image as one row: the copy has no others."""
    return (workload.kernel_h, workload.kernel_w) == (1, 1)


def plane(workload: Conv2dWorkload) -> tuple[int, int]:
    """Rows and columns of the output as the kernel's loops see it."""
    if is_pixelwise(workload):
        return 1, workload.out_height * workload.out_width
    return workload.out_height, workload.out_width


def padded_plane(workload: Conv2dWorkload, config: Config) -> tuple[int, int]:
    """The same, rounded up to whole groups of tiles."""
    height, width = plane(workload)
    rows, columns = config.int("oh"), config.int("ow") * config.int("side")
    return -(-height // rows) * rows, -(-width // columns) * columns


def tile_copy(workload: Conv2dWorkload, machine: Machine) -> TileCopy:
    """The copy that a layer's kernel makes."""
    w = workload
    words = tiles_of(machine).row_bytes // WORD_BYTES
    taps = not is_pixelwise(w) and w.in_channels <= WORD_BYTES and w.kernel_w <= words
    if taps and (w.dilation_h, w.dilation_w) == (1, 1):
        return TapsSideBySide(w, machine)
    return ChannelsTogether(w, machine)


@dataclass(frozen=True)
class TileCopy(ABC):
    """A copy of the image for the tiles of one layer.

    Parameters
    ----------
    workload, machine
        A dense layer of bytes, and a processor that multiplies tiles.
    """

    workload: Conv2dWorkload
    machine: Machine

    @property
    @abstractmethod
    def steps(self) -> tuple[int, ...]:
        """Extents of the reduction's axes, over products of tiles."""

    @abstractmethod
    def shape(self, config: Config) -> tuple[int, ...]:
        """The copy's."""

    @abstractmethod
    def place(
        self, n: Expr, h: Expr, x: Expr, step: Sequence[Expr], config: Config, byte: Expr
    ) -> tuple[Index, ...]:
        """Where a byte of the row of a pixel of the output is in it."""

    @abstractmethod
    def copied(self, given: Operands, config: Config) -> Tensor:
        """Block ``widen``, the copy.

        What lies beside the image, and not in its padding, is multiplied by nothing that is stored.
        """

    @abstractmethod
    def rows(self, weight: FloatArray) -> FloatArray:
        """An OIHW weight as ``(K, *steps, 16 words, 4)``, with zeros where it ends."""

    @property
    def count(self) -> int:
        """Products that each tile of sums adds up."""
        return prod(self.steps)

    def bytes(self, config: Config) -> int:
        """Those of the copy."""
        return prod(self.shape(config))


class ChannelsTogether(TileCopy):
    """``(N, C/64, H, phases, W, 64)``: 64 channels of a pixel are one row of a tile.

    Columns that one tap of a strided layer reads are neighbours, one phase of them.
    """

    @property
    def blocks(self) -> int:
        """Rows of tiles that hold all channels of a pixel."""
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
        words = tiles_of(self.machine).row_bytes // WORD_BYTES
        outputs, channels, *taps = weight.shape
        rows = np.zeros((outputs, self.blocks * words * WORD_BYTES, *taps), weight.dtype)
        rows[:, :channels] = weight
        return rows.reshape(outputs, self.blocks, words, WORD_BYTES, *taps).transpose(
            0, 4, 5, 1, 2, 3
        )


class TapsSideBySide(TileCopy):
    """``(N, H, W * R * 4)``: four channels of ``R`` rows of a column, one column behind the other.

    Rows of tiles overlap: that of a pixel begins ``R * 4`` times the stride bytes behind its
    neighbour's. ``R`` is a power of two, so many that as many columns as the kernel has fit a row.
    """

    @property
    def high(self) -> int:
        """Rows of the image that lie side by side."""
        w, words = self.workload, tiles_of(self.machine).row_bytes // WORD_BYTES
        fitting = [1]
        while fitting[-1] < w.kernel_h and 2 * fitting[-1] * w.kernel_w <= words:
            fitting.append(2 * fitting[-1])
        return fitting[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """Groups of kernel rows."""
        return (-(-self.workload.kernel_h // self.high),)

    @property
    def _down(self) -> int:
        """Rows of the image from one row of the copy to the next."""
        return gcd(self.workload.stride_h, self.high)

    def shape(self, config: Config) -> tuple[int, ...]:
        """See the class."""
        w = self.workload
        height, width = padded_plane(w, config)
        last = (height - 1) * w.stride_h + (self.steps[0] - 1) * self.high
        words = tiles_of(self.machine).row_bytes // WORD_BYTES
        columns = (width - 1) * w.stride_w + words // self.high
        return w.batch, last // self._down + 1, columns * self.high * WORD_BYTES

    def place(
        self, n: Expr, h: Expr, x: Expr, step: Sequence[Expr], config: Config, byte: Expr
    ) -> tuple[Index, ...]:
        """See the base class."""
        w, down = self.workload, self._down
        row = h * (w.stride_h // down) + step[0] * (self.high // down)
        return n, row, x * (w.stride_w * self.high * WORD_BYTES) + byte

    def copied(self, given: Operands, config: Config) -> Tensor:
        """See the base class."""
        from tvmconv.tvm_api import te

        w, high, (_, rows, size) = self.workload, self.high, self.shape(config)
        columns = size // (high * WORD_BYTES)
        zero = None if given.zero is None else given.zero[0]
        ends = (rows - 1) * self._down + high - 1 - w.pad_top, columns - 1 - w.pad_left

        def value(n: Expr, y: Expr, z: Expr) -> Expr:
            row = y * self._down + z // WORD_BYTES % high - w.pad_top
            column = z // (high * WORD_BYTES) - w.pad_left
            read = given.data[n, 0, row, column, z % WORD_BYTES]
            return zero_unless(image_tests(w, row, column, *ends), read, zero)

        return te.compute(self.shape(config), value, name=WIDEN)

    def rows(self, weight: FloatArray) -> FloatArray:
        """See the base class."""
        high, (steps,) = self.high, self.steps
        words = tiles_of(self.machine).row_bytes // WORD_BYTES
        outputs, channels, height, width = weight.shape
        found = np.zeros((outputs, steps * high, words // high, WORD_BYTES), weight.dtype)
        found[:, :height, :width, :channels] = weight.transpose(0, 2, 3, 1)
        found = found.reshape(outputs, steps, high, words // high, WORD_BYTES)
        return found.transpose(0, 1, 3, 2, 4).reshape(outputs, steps, words, WORD_BYTES)
