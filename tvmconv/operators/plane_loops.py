"""Sizes and buffers of a pool over planes, and the loops that both axes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from operator import add
from typing import Any

import numpy as np

from tvmconv.operators.pool import PoolWindow
from tvmconv.operators.vector_loops import pieces, ramp, scratch, spread, vector_type
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr

# A window of so many elements is read element by element, which costs less than passes do.
FEW_TAPS = 8
# Elements of the buffers of one axis: the nearest cache holds them.
_BUFFER_ELEMENTS = 4096
# Elements of planes that are combined together: more than the stores that wait for the cache.
_GROUP_ELEMENTS = 1024
# Elements of a line, and lines of one result each, that LLVM keeps in registers.
_SHORT_LINE, _FEW_LINES = 4, 6
# Columns of a block, where columns are independent of each other.
_COLUMNS = 1024
# Beyond this stride, elements are read one by one.
SHUFFLED_STRIDE = 4


@dataclass(frozen=True)
class WindowParts:
    """The windows with sizes of powers of two that make up a longer window.

    ``passes`` are the sizes that are doubled. ``taps`` are the combined parts: size and offset.
    """

    passes: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, kernel: int, overlap: bool) -> WindowParts:
        """Parts of a window; they may overlap where repeating an element changes nothing."""
        largest = 1 << (kernel.bit_length() - 1)
        passes = tuple(1 << i for i in range(largest.bit_length() - 1))
        if overlap:
            return cls(passes, ((largest, 0), (largest, kernel - largest)))
        taps, offset = [], 0
        for size in (*passes, largest):
            if kernel & size:
                taps.append((size, offset))
                offset += size
        return cls(passes, tuple(taps))

    @property
    def largest(self) -> int:
        """The size of the last parts, which no pass doubles."""
        return self.taps[-1][0]

    def offsets(self, size: int) -> list[int]:
        """Where the parts of a size begin."""
        return [offset for part, offset in self.taps if part == size]


class PlaneLoops:
    """One pool: sizes, buffers, and loads."""

    def __init__(
        self,
        data: Any,
        result: Any,
        rows: PoolWindow,
        columns: PoolWindow,
        kind: str,
        lanes: int,
        count_include_pad: bool,
        power: int,
        root: bool,
    ) -> None:
        self.data, self.result = T.buffer_proxy(data), T.buffer_proxy(result)
        self.rows, self.columns = rows, columns
        self.is_max, self.is_mean = kind == "max", kind == "avg"
        self.count_include_pad, self.power, self.root = count_include_pad, power, root
        self.planes, self.height, self.width = (int(size) for size in data.shape)
        _, self.out_height, self.out_width = (int(size) for size in result.shape)
        self.dtype = str(data.dtype)
        self.inner = "float32" if self.dtype == "float16" else self.dtype
        self.lanes = lanes
        lowest = -inf if self.inner.startswith("float") else float(np.iinfo(self.inner).min)
        self.identity = lowest if self.is_max else 0.0
        self.combine: Callable[[Expr, Expr], Expr] = tirx.max if self.is_max else add
        self.long_rows = rows.kernel > FEW_TAPS
        # two windows make a maximum, so that fewer elements are read one by one
        apart = self.is_max and columns.stride > SHUFFLED_STRIDE and self.out_width > lanes
        self.long_columns = columns.kernel > (FEW_TAPS // 2 if apart else FEW_TAPS)
        trivial = columns == PoolWindow(1)
        # columns that no window joins need no copy, and are cut where they are many
        self.cut = min(self.width, _COLUMNS) if trivial else self.width
        self.copies = self.long_rows or not trivial
        self.out_cut = self.cut if trivial else self.out_width
        self.cuts = -(-self.width // self.cut)
        # few windows, or ones that hardly overlap, are cheaper tap by tap
        doubled = (rows.kernel.bit_length() + 1) * ((self.out_height - 1) * rows.stride + rows.span)
        self.doubles_rows = self.long_rows and self.out_height * rows.kernel > doubled
        reach = (self.out_width - 1) * columns.stride + columns.span
        self.pitch = max(columns.pad_before + self.cut, reach)
        self.block = self._rows_of_block()
        self.blocks = -(-self.out_height // self.block)
        self.group = self._planes_of_group()
        # lines of the rows of a group
        self.count = self.group * self.block

    def _planes_of_group(self) -> int:
        """Small planes whose lines are all stored before one is read.

        A vector that is read before two stores that it overlaps are in the cache waits for them.
        Very short lines without padding are kept in registers, and so are a few lines that each
        make one result.
        """
        if not self.copies or self.doubles_rows or self.blocks > 1:
            return 1
        single = self.out_cut == 1 and self.block <= _FEW_LINES and not self.long_columns
        if (self.pitch <= _SHORT_LINE or single) and not self.columns.pad_before:
            return 1
        fit = max(1, _GROUP_ELEMENTS // (self.block * self.pitch))
        return -(-self.planes // -(-self.planes // fit))

    def _rows_of_block(self) -> int:
        fit = max(_BUFFER_ELEMENTS // self.pitch, 1)
        if self.doubles_rows:
            # at most half of a block's rows are also read by its neighbors
            fit = max(fit, 2 * self.rows.span) // self.rows.stride
        return max(1, min(self.out_height, fit))

    @property
    def stage_rows(self) -> int:
        """Input rows that the windows of a block cover."""
        return (self.block - 1) * self.rows.stride + self.rows.span

    def allocate(self) -> None:
        """Make the buffers of a task; padding is filled once, as nothing else is written there."""
        slack = (SHUFFLED_STRIDE + 1) * self.lanes
        if self.copies:
            size = self.count * self.pitch + slack
            self.lines = scratch(size, self.inner)
            self.fill(self.lines, size)
        if self.doubles_rows:
            size = self.stage_rows * self.pitch + slack
            self.stage = scratch(size, self.inner)
            self.fill(self.stage, size)
        if self.long_columns:
            self.doubled = scratch(self.count * self.pitch + slack, self.inner)
            self.partial = scratch(self.count * self.out_cut + slack, self.inner)
        if self.is_mean:
            self.across = scratch(self.out_cut + slack, self.inner)
            with T.serial(0, self.out_cut) as column:
                count = self.columns.count(column, self.width, self.count_include_pad)
                self.across[column] = tirx.Cast(self.inner, count)

    def fill(self, buffer: Any, size: int) -> None:
        """Write the value that changes no result."""

        def store(start: Any, width: int) -> None:
            buffer[ramp(start, width)] = self.constant(width)

        pieces(size, self.lanes, store)

    def constant(self, width: int) -> Any:
        """The value that changes no result."""
        value = tirx.const(np.asarray(self.identity).astype(self.inner).item(), self.inner)
        return spread(value, width)

    def read(self, plane: Any, row: Any, column: Any, width: int, guarded: bool) -> Any:
        """Elements of a row, or their powers; if ``guarded``, rows outside change no result."""
        value = self.data[plane, row, ramp(column, width)]
        if self.dtype != self.inner:
            value = tirx.Cast(vector_type(self.inner, width), value)
        if self.power:
            value = value * value if self.power == 2 else tirx.abs(value)
        if guarded:
            inside = tirx.all(row >= 0, row < self.height)
            value = tirx.if_then_else(inside, value, self.constant(width))
        return value

    def double(self, source: Any, target: Any, size: Any, distance: int) -> None:
        """Windows of twice the size; windows beyond the end of a row are never used."""
        with T.serial(0, (size + self.lanes - 1) // self.lanes) as vector:
            place = vector * self.lanes
            left, right = (source[ramp(place + shift, self.lanes)] for shift in (0, distance))
            target[ramp(place, self.lanes)] = self.combine(left, right)
