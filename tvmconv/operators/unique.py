"""The different rows of a tensor.

A stable merge sort brings equal rows together. The result has the first of them in
the order of the tensor.
"""

from __future__ import annotations

from typing import Any

from tvmconv.operators.entries import goes_before
from tvmconv.operators.vector_loops import one_task, scratch
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor


def different_rows(data: Tensor, existing: Tensor, ordered: bool) -> list[Tensor]:
    """For the different rows: the first row, and how many are equal; their number for each row.

    ``data`` is ``(rows, width)``, of which the first ``existing`` rows exist. Results are the first
    rows, the numbers of all rows, the counts, and how many different rows there are. Numbers are in
    the order of the rows' values if they are ``ordered``, or else of their first rows. First rows
    after the last different one are 0.
    """
    size = int(data.shape[0])

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, count_of_rows, first, inverse, counts, extent = map(
                T.buffer_proxy, (*ins, *outs)
            )
            with one_task():
                rows, groups, rank = (scratch(1, "int32") for _ in range(3))
                rows[0] = tirx.Cast("int32", tirx.min(tirx.max(count_of_rows[0], 0), size))
                compare = _Comparison(source, str(data.dtype), int(data.shape[1]))
                order, half = _sorted(compare, size, rows)
                member, leader, number = (scratch(size, "int32") for _ in range(3))
                groups[0] = tirx.const(0, "int32")
                with T.serial(0, rows[0]) as place:
                    here = order[half[0] * size + place]
                    before = order[half[0] * size + tirx.max(place - 1, 0)]
                    compare(before, here)
                    with T.If(tirx.any(place == 0, compare.sign[0] != 0)), T.Then():
                        leader[groups[0]] = here
                        number[groups[0]] = groups[0]
                        counts[groups[0]] = tirx.const(0, "int64")
                        groups[0] = groups[0] + 1
                    member[here] = groups[0] - 1
                if not ordered:
                    rank[0] = tirx.const(0, "int32")
                    with T.serial(0, rows[0]) as row:
                        # no branch: the number of the group of a later row does not change
                        is_first = tirx.Cast("int32", leader[member[row]] == row)
                        number[member[row]] = tirx.Select(
                            is_first > 0, rank[0], number[member[row]]
                        )
                        rank[0] = rank[0] + is_first
                with T.serial(0, rows[0]) as row:
                    own = number[member[row]]
                    inverse[row] = tirx.Cast("int64", own)
                    counts[own] = counts[own] + tirx.const(1, "int64")
                with T.serial(0, groups[0]) as group:
                    first[number[group]] = tirx.Cast("int64", leader[group])
                with T.serial(0, size - groups[0]) as rest:
                    first[groups[0] + rest] = tirx.const(0, "int64")
                extent[0] = tirx.Cast("int64", groups[0])
            return builder.get()

    shapes = [[size], [size], [size], [1]]
    return te.extern(shapes, [data, existing], write, dtype=["int64"] * 4, name="different_rows")


class _Comparison:
    """Compares rows element by element; ``sign`` is -1, 0 or 1."""

    def __init__(self, source: Any, dtype: str, width: int) -> None:
        self._source, self._dtype, self._width = source, dtype, width
        self._column = scratch(1, "int32")
        self.sign = scratch(1, "int32")

    def __call__(self, left: Any, right: Any) -> None:
        """Set ``sign`` to -1 if the left row comes before the right one, and 1 if after."""
        column, sign = self._column, self.sign
        column[0] = tirx.const(0, "int32")
        sign[0] = tirx.const(0, "int32")
        with T.While(tirx.all(sign[0] == 0, column[0] < self._width)):
            a, b = (self._source[row, column[0]] for row in (left, right))
            before, after = (
                tirx.Cast("int32", goes_before(*pair, self._dtype, False))
                for pair in ((a, b), (b, a))
            )
            sign[0] = after - before
            column[0] = column[0] + 1


def _sorted(compare: _Comparison, size: int, rows: Any) -> tuple[Any, Any]:
    """Row numbers in order, in one half of a buffer, and which half it is."""
    order = scratch(2 * size, "int32")
    half, width, left, right, takes = (scratch(1, "int32") for _ in range(5))
    half[0] = tirx.const(0, "int32")
    width[0] = tirx.const(1, "int32")
    with T.serial(0, rows[0]) as place:
        order[place] = place
    with T.While(width[0] < rows[0]):
        with T.serial(0, (rows[0] + 2 * width[0] - 1) // (2 * width[0])) as pair:
            begin = pair * (2 * width[0])
            middle = tirx.min(begin + width[0], rows[0])
            end = tirx.min(begin + 2 * width[0], rows[0])
            left[0] = begin
            right[0] = middle
            with T.serial(0, end - begin) as place:
                a = order[half[0] * size + tirx.min(left[0], middle - 1)]
                b = order[half[0] * size + tirx.min(right[0], end - 1)]
                compare(a, b)
                right_first = tirx.any(left[0] >= middle, compare.sign[0] > 0)
                takes[0] = tirx.Cast("int32", tirx.all(right[0] < end, right_first))
                order[(1 - half[0]) * size + begin + place] = tirx.Select(takes[0] > 0, b, a)
                left[0] = left[0] + 1 - takes[0]
                right[0] = right[0] + takes[0]
        half[0] = 1 - half[0]
        width[0] = width[0] * 2
    return order, half
