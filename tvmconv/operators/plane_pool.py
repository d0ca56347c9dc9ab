"""Pooling of planes whose rows are contiguous in memory, each axis by itself.

A window of ``k`` elements is made of windows of 1, 2, 4, ... elements. Two neighboring windows make
one of twice the size, so that an element costs the logarithm of ``k``. Unlike with running sums,
neither NaN nor infinity reaches a window that does not cover it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvmconv.operators.plane_loops import SHUFFLED_STRIDE, WindowParts
from tvmconv.operators.plane_rows import RowLoops
from tvmconv.operators.pool import PoolWindow, tree
from tvmconv.operators.vector_loops import pieces, ramp, spread, tasks, vector_type
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

TYPES = ("float32", "float16", "float64")
# types of maxima
MAX_TYPES = (*TYPES, "int8", "uint8")


def plane_pool(
    data: Tensor,
    rows: PoolWindow,
    columns: PoolWindow,
    kind: str,
    lanes: int,
    count_include_pad: bool = False,
    power: int = 0,
    root: bool = False,
) -> Tensor:
    """Maximum, mean or sum over windows.

    ``data`` is ``(planes, H, W)`` of one of :data:`TYPES`, or of :data:`MAX_TYPES` for maxima, and
    ``kind`` is ``max``, ``avg`` or ``sum``. ``lanes`` are elements of a vector.
    ``count_include_pad`` divides by the taps that are in the image or its padding, instead of in
    the image only. Magnitudes (``power`` 1) or squares (2) are combined in place of the elements.
    With ``root``, results are square roots.
    """
    planes, height, width = (int(size) for size in data.shape)
    shape = (planes, rows.output(height), columns.output(width))

    def write(ins: Any, outs: Any) -> Any:
        return _PoolLoops(
            ins[0], outs[0], rows, columns, kind, lanes, count_include_pad, power, root
        ).write()

    name = f"{kind}_plane_pool"
    result: Any = te.extern([shape], [data], write, dtype=[data.dtype], name=name)
    return result


class _PoolLoops(RowLoops):
    """The loops of a pool: rows of windows into lines, then the columns of lines."""

    def write(self) -> Any:
        """All loops; a task is a number of blocks of rows, of one plane or several."""
        groups = -(-self.planes // self.group)
        units = groups * self.blocks * self.cuts
        work = self.count * max(self.out_cut, self.cut)
        return tasks(units, work, self.allocate, self._unit)

    def _unit(self, unit: Any) -> None:
        cut, block, group = (
            unit % self.cuts,
            unit // self.cuts % self.blocks,
            unit // (self.cuts * self.blocks),
        )
        # the last block of columns, and the last group of planes, overlap those before them
        first = tirx.min(cut * self.cut, self.width - self.cut) if self.cuts > 1 else 0
        plane = tirx.min(group * self.group, self.planes - self.group)
        start = block * self.block
        count: Any = self.block
        if self.blocks * self.block != self.out_height:
            count = tirx.min(self.block, self.out_height - start)
        if self.doubles_rows:
            self.doubled_rows(plane, start, count, first)
        else:
            with T.serial(0, self.group) as own, T.serial(0, count) as row:
                self._row(plane + own, start + row, own * self.block + row, first)
        if not self.copies:
            return
        if self.long_columns:
            self._double_columns(self.group * count)
        with T.serial(0, self.group) as own, T.serial(0, count) as row:
            self._columns(plane + own, start + row, own * self.block + row, first)

    def _row(self, plane: Any, row: Any, line: Any, first: Any) -> None:
        """Combine the rows of a window into a line, or into the result."""
        if self.long_rows:
            self.row_by_taps(plane, row, line, first)
        elif self.copies:
            self.short_row(plane, row, first, partial(self._store_line, line))
        else:
            self.short_row(plane, row, first, partial(self._store_result, plane, row, first))

    def _store_line(self, row: Any, column: Any, width: int, value: Any) -> None:
        place = row * self.pitch + self.columns.pad_before + column
        self.lines[ramp(place, width)] = value

    def _store_result(
        self, plane: Any, row: Any, first: Any, column: Any, width: int, value: Any
    ) -> None:
        if self.root:
            value = tirx.sqrt(value)
        elif self.is_mean:
            down = self.rows.count(row, self.height, self.count_include_pad)
            value = value * self._factor(down, column, width)
        if self.dtype != self.inner:
            value = tirx.Cast(vector_type(self.dtype, width), value)
        self.result[plane, row, ramp(first + column, width)] = value

    def _factor(self, down: Any, column: Any, width: int) -> Any:
        across = self.columns.count(column, self.width, self.count_include_pad)
        if isinstance(down, int) and isinstance(across, int):
            return spread(tirx.const(1.0 / (down * across), self.inner), width)
        counts = self.across[ramp(column, width)] * spread(tirx.Cast(self.inner, down), width)
        return spread(tirx.const(1.0, self.inner), width) / counts

    def _double_columns(self, count: Any) -> None:
        columns = self.columns
        parts = WindowParts.of(columns.kernel, self.is_max)
        size = count * self.pitch
        started = False
        for part in parts.passes:
            source = self.lines if part == 1 else self.doubled
            if taps := parts.offsets(part):
                self._add_columns(count, source, taps, started)
                started = True
            distance = part * columns.dilation
            size = size - distance
            self.double(source, self.doubled, size, distance)
        self.started = started
        self.last_taps = parts.offsets(parts.largest)

    def _add_columns(self, count: Any, source: Any, offsets: list[int], started: bool) -> None:
        with T.serial(0, count) as row:

            def add(column: Any, width: int) -> None:
                target = ramp(row * self.out_cut + column, width)
                values = [self._tap(source, row, column, offset, width) for offset in offsets]
                if started:
                    values.append(self.partial[target])
                self.partial[target] = tree(values, self.combine)

            pieces(self.out_cut, self.lanes, add, overlap=not started)

    def _tap(self, source: Any, line: Any, column: Any, offset: int, width: int) -> Any:
        """Every ``stride``-th element of a line from a tap of the first window on."""
        stride = self.columns.stride
        place = line * self.pitch + column * stride + offset * self.columns.dilation
        if stride == 1 or width == 1:
            return source[ramp(place, width)]
        if stride > SHUFFLED_STRIDE:
            return source[tirx.Ramp(place, stride, width)]
        vectors = [source[ramp(place + part * width, width)] for part in range(stride)]
        lanes = [tirx.const(lane * stride, "int32") for lane in range(width)]
        return tirx.Shuffle(vectors, lanes)

    def _columns(self, plane: Any, row: Any, line: Any, first: Any) -> None:
        """Combine the columns of a window, and write the result."""
        source = self.doubled if self.long_columns else self.lines
        taps = self.last_taps if self.long_columns else list(range(self.columns.kernel))

        def piece(column: Any, width: int) -> None:
            values = [self._tap(source, line, column, tap, width) for tap in taps]
            if self.long_columns and self.started:
                values.append(self.partial[ramp(line * self.out_cut + column, width)])
            self._store_result(plane, row, first, column, width, tree(values, self.combine))

        pieces(self.out_cut, self.lanes, piece)
