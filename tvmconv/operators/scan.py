"""Running sums and products along an axis, by vectors."""

from __future__ import annotations

import operator
from typing import Any

from tvmconv.operators.vector_loops import pieces, ramp, spread, vector_type
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Expr, Tensor

# columns whose sums stay in the nearest cache until the next row
_BLOCK = 1024
# vectors of columns whose sums stay in registers
_HELD = 8


def running_total(
    data: Tensor,
    dtype: str,
    exclusive: bool,
    lanes: int,
    reverse: bool = False,
    *,
    is_product: bool = False,
    distance: int = 1,
) -> Tensor:
    """The sum of all values along the second axis up to each; without itself if ``exclusive``.

    Neighboring columns are summed side by side. In rows, the sums of a vector are joined to sums of
    doubled lengths. Only the total of the previous vectors causes a wait.

    ``data`` is ``(outer, size, columns)``, or ``(outer, size)`` for rows. ``exclusive`` and
    ``reverse`` are as in ONNX's CumSum. A vector has ``lanes`` values of ``dtype``, the type of the
    sums. If ``is_product``, products take the place of sums.

    Rows may hold very few columns: ``(outer, size * distance)``, where the values of a sum are
    ``distance`` apart, which divides ``lanes``.
    """
    shape = [int(size) for size in data.shape]

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            scan = _Scan(ins[0], outs[0], dtype, exclusive, lanes, reverse, is_product, distance)
            if len(shape) == 2:
                scan.rows(*shape)
            else:
                scan.columns(*shape)
            return builder.get()

    total: Any = te.extern([shape], [data], write, dtype=[dtype], name="running_total")
    return total


class _Scan:
    """The loops of one running sum."""

    def __init__(
        self,
        source: Any,
        target: Any,
        dtype: str,
        exclusive: bool,
        lanes: int,
        reverse: bool,
        is_product: bool,
        distance: int,
    ) -> None:
        self._distance = distance
        self._source, self._target = source, target
        self._neutral = tirx.const(int(is_product), dtype)
        self._combined = operator.mul if is_product else operator.add
        self._dtype, self._exclusive, self._lanes = dtype, exclusive, lanes
        self._reverse = reverse

    def columns(self, outer: int, size: int, columns: int) -> None:
        """Neighboring columns: sums of a few vectors stay in registers, longer rows follow rows."""
        if columns <= self._lanes * _HELD:
            with T.parallel(0, outer) as row:
                self._group(row, size, columns)
            return
        width = min(columns, _BLOCK)
        groups, rest = divmod(columns, width)
        count = groups + (rest > 0)
        with T.parallel(0, outer * count) as piece:
            row, group = piece // count, piece % count
            if not rest:
                self._lines(row, size, group * width, width)
                return
            with T.If(group < groups):
                with T.Then():
                    self._lines(row, size, group * width, width)
                with T.Else():
                    self._lines(row, size, groups * width, rest)

    def _lines(self, row: Any, size: int, first: Any, width: int) -> None:
        """Sums of a row of columns from the sums of the row before, in the order of memory."""
        last = size - 1

        def line(step: Any, *, begins: bool) -> None:
            now, before = (
                last - number if self._reverse else number for number in (step, step - 1)
            )

            def store(column: Any, lanes: int) -> None:
                place = ramp(first + column, lanes)
                if begins and self._exclusive:
                    value = spread(self._neutral, lanes)
                else:
                    value = self._value([row, before if self._exclusive else now, place], lanes)
                if not begins:
                    sums = tirx.BufferLoad(self._target, [row, before, place])
                    value = self._combined(sums, value)
                T.buffer_store(self._target, value, [row, now, place])

            pieces(width, self._lanes, store)

        line(0, begins=True)
        if size > 1:
            with T.serial(0, size - 1) as step:
                line(step + 1, begins=False)

    def _group(self, row: Any, size: int, width: int) -> None:
        starts = range(0, width, self._lanes)
        parts = [(start, min(self._lanes, width - start)) for start in starts]
        sums = [self._kept(part) for _, part in parts]
        with T.serial(0, size) as step:
            place = size - 1 - step if self._reverse else step
            for held, (start, part) in zip(sums, parts, strict=True):
                self._advance(held, [row, place], start, part)

    def rows(self, outer: int, size: int) -> None:
        """Rows by whole vectors, then the values that remain."""
        vectors = size // self._lanes
        with T.parallel(0, outer) as row:
            # the sum of all before, in each lane of its column
            total = self._kept(self._lanes)
            if vectors:
                with T.serial(0, vectors) as vector:
                    start = vector * self._lanes
                    if self._reverse:
                        start = size - self._lanes - start
                    self._vector(total, row, start)
            done, each = vectors * self._lanes, self._distance
            with T.serial(0, (size - done) // each) as step:
                place = size - done - (step + 1) * each if self._reverse else done + step * each
                self._advance(total, [row], place, each)

    def _vector(self, total: Any, row: Any, start: Any) -> None:
        lanes, each = self._lanes, self._distance
        place = [row, ramp(start, lanes)]
        sums = self._kept(lanes)
        whole = [ramp(0, lanes)]
        neutral = spread(self._neutral, lanes)
        T.buffer_store(sums, self._value(place, lanes), whole)
        length = each
        while length < lanes:
            # the second half of each part gets the totals of the first half
            picks = [
                lane // length * length - each + lane % each if lane & length else None
                for lane in range(lanes)
            ]
            ends = self._picked(tirx.BufferLoad(sums, whole), neutral, picks)
            T.buffer_store(sums, self._combined(tirx.BufferLoad(sums, whole), ends), whole)
            length *= 2
        now, before = (tirx.BufferLoad(buffer, whole) for buffer in (sums, total))
        own = now
        if self._exclusive:
            own = self._picked(now, neutral, [*[None] * each, *range(lanes - each)])
        T.buffer_store(self._target, self._combined(own, before), place)
        first = 0 if self._reverse else lanes - each
        last = [first + lane % each for lane in range(lanes)]
        T.buffer_store(total, self._combined(before, tirx.Shuffle([now], last)), whole)

    def _picked(self, vector: Any, neutral: Any, picks: list[int | None]) -> Any:
        """The lanes of a vector that ``picks`` names in the order of the sums; neutral for None."""
        lanes = self._lanes
        if self._reverse:
            picks = [None if pick is None else lanes - 1 - pick for pick in reversed(picks)]
        return tirx.Shuffle([vector, neutral], [lanes if pick is None else pick for pick in picks])

    def _advance(self, sums: Any, outer: list[Any], start: Any, width: int) -> None:
        """Add the next values to their sums, and store these."""
        kept, place = [ramp(0, width)], [*outer, ramp(start, width)]
        before = tirx.BufferLoad(sums, kept)
        after = self._combined(before, self._value(place, width))
        if self._exclusive:
            T.buffer_store(self._target, before, place)
            T.buffer_store(sums, after, kept)
        else:
            T.buffer_store(sums, after, kept)
            T.buffer_store(self._target, tirx.BufferLoad(sums, kept), place)

    def _kept(self, width: int) -> Any:
        sums = T.decl_buffer([width], self._dtype, scope="local")
        T.buffer_store(sums, spread(self._neutral, width), [ramp(0, width)])
        return sums

    def _value(self, place: list[Any], width: int) -> Expr:
        value, wanted = tirx.BufferLoad(self._source, place), vector_type(self._dtype, width)
        return value if str(value.ty.dtype) == wanted else tirx.Cast(wanted, value)
