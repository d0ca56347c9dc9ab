"""Maxima and sums of the rows of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.plane_loops import FEW_TAPS, PlaneLoops, WindowParts
from tvmconv.operators.pool import tree
from tvmconv.operators.vector_loops import pieces, ramp
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T


class RowLoops(PlaneLoops):
    """The loops along the height of planes."""

    def short_row(
        self, plane: Any, row: Any, first: Any, store: Callable[[Any, int, Any], None]
    ) -> None:
        """Combine the rows of a window, of which those outside of the image count for nothing."""
        taps = [self.rows.tap(row, k) for k in range(self.rows.kernel)]

        def cover(guarded: bool) -> None:
            def piece(column: Any, width: int) -> None:
                values = [self.read(plane, t, first + column, width, guarded) for t in taps]
                store(column, width, tree(values, self.combine))

            pieces(self.cut, self.lanes, piece)

        if self.rows.inside(self.height):
            cover(False)
            return
        with T.If(tirx.all(taps[0] >= 0, taps[-1] < self.height)):
            with T.Then():
                cover(False)
            with T.Else():
                cover(True)

    def row_by_taps(self, plane: Any, row: Any, line: Any, first: Any) -> None:
        """Combine the rows of a long window, a few taps in each pass."""
        begin = line * self.pitch + self.columns.pad_before

        def clear(column: Any, width: int) -> None:
            self.lines[ramp(begin + column, width)] = self.constant(width)

        def add(start: Any, count: int) -> None:
            def piece(column: Any, width: int) -> None:
                taps = [self.rows.tap(row, start + k) for k in range(count)]
                values = [self.read(plane, t, first + column, width, guarded) for t in taps]
                place = ramp(begin + column, width)
                self.lines[place] = tree([*values, self.lines[place]], self.combine)

            pieces(self.cut, self.lanes, piece, overlap=False)

        guarded = not self.rows.inside(self.height)
        whole, rest = divmod(self.rows.kernel, FEW_TAPS)
        # a vector that is read before both stores that it overlaps are in the cache waits for them
        pieces(self.cut, self.lanes, clear, overlap=False)
        with T.serial(0, whole) as chunk:
            add(chunk * FEW_TAPS, FEW_TAPS)
        if rest:
            add(whole * FEW_TAPS, rest)

    def doubled_rows(self, plane: Any, start: Any, count: Any, first: Any) -> None:
        """Combine rows by windows of 1, 2, 4, ... rows; whole rows follow each other in memory."""
        rows, pitch = self.rows, self.pitch
        top = start * rows.stride - rows.pad_before
        with T.serial(0, (count - 1) * rows.stride + rows.span) as line:

            def copy(column: Any, width: int) -> None:
                place = line * pitch + self.columns.pad_before + column
                value = self.read(plane, top + line, first + column, width, True)
                self.stage[ramp(place, width)] = value

            pieces(self.cut, self.lanes, copy)
        parts = WindowParts.of(rows.kernel, self.is_max)
        reached = (count - 1) * rows.stride + rows.span
        started = False
        for size in (*parts.passes, parts.largest):
            if taps := parts.offsets(size):
                self._add_rows(count, taps, started)
                started = True
            if size in parts.passes:
                reached = reached - size * rows.dilation
                self.double(self.stage, self.stage, reached * pitch, size * rows.dilation * pitch)

    def _add_rows(self, count: Any, offsets: list[int], started: bool) -> None:
        rows, pitch = self.rows, self.pitch
        with T.serial(0, count) as row:

            def add(column: Any, width: int) -> None:
                here = row * rows.stride
                places = [(here + offset * rows.dilation) * pitch + column for offset in offsets]
                values = [self.stage[ramp(place, width)] for place in places]
                target = ramp(row * pitch + column, width)
                if started:
                    values.append(self.lines[target])
                self.lines[target] = tree(values, self.combine)

            pieces(pitch, self.lanes, add, overlap=not started)
