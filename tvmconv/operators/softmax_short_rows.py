"""Softmax and its logarithm along short rows or few columns, by vectors of one element of each."""

from __future__ import annotations

from typing import Any

from tvmconv.operators import math
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.operators.row_groups import RowGroups, are_short
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

# elements of a group that stay in L1
_GROUP = 4096


def are_few_columns(outer: int, size: int, columns: int, lanes: int) -> bool:
    """Whether vectors over ``outer`` cost less than vectors of columns that are mostly empty."""
    if columns == 1:
        return are_short(outer, size, lanes)
    return outer >= lanes and 2 * columns < lanes and size * columns * lanes <= _GROUP


def softmax_short_rows(
    data: Tensor, columns: int, lanes: int, logarithm: bool, transposed: str
) -> Tensor:
    """Softmax of FP32 ``(outer, size * columns)`` along the size, or its logarithm.

    ``lanes`` of the outer elements are normalized at a time. They are transposed in the nearest
    cache: a vector has one element of each. There are at least ``lanes``.
    ``transposed`` is as in :class:`tvmconv.operators.row_groups.RowGroups`.
    """
    outer, length = (int(d) for d in data.shape)

    def write(ins: Any, outs: Any) -> Any:
        source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
        groups = RowGroups(outer, length, lanes, transposed)

        def unit(number: Any) -> None:
            first = groups.first(number)
            groups.load(source, first)
            with T.serial(0, columns) as column:
                _normalize(groups.elements, column, columns, (length // columns, lanes), logarithm)
            groups.store(target, first)

        return tasks(groups.count, groups.work, groups.allocate, unit)

    result: Any = te.extern(
        [(outer, length)], [data], write, dtype=["float32"], name="softmax_short_rows"
    )
    return result


def _normalize(
    elements: Any, column: Any, columns: int, shape: tuple[int, int], logarithm: bool
) -> None:
    """Replace the elements of a column by the results: ``shape`` is its size and the lanes."""
    size, lanes = shape
    peak, total = registers(lanes), registers(lanes)

    def each() -> Any:
        return T.serial(0, size)

    def place(step: Any, lane: Any) -> Any:
        return (step * columns + column) * lanes + lane

    with side_by_side(lanes) as lane:
        peak[lane] = elements[place(0, lane)]
        total[lane] = math.constant(0.0)
    with each() as step, side_by_side(lanes) as lane:
        peak[lane] = tirx.max(peak[lane], elements[place(step, lane)])
    with each() as step:
        with side_by_side(lanes) as lane:
            value = elements[place(step, lane)] - peak[lane]
            elements[place(step, lane)] = value if logarithm else exp_of_negative(value)
        with side_by_side(lanes) as lane:
            power = elements[place(step, lane)]
            total[lane] = total[lane] + (exp_of_negative(power) if logarithm else power)
    with side_by_side(lanes) as lane:
        sums = total[lane]
        total[lane] = math.log(sums) if logarithm else math.constant(1.0) / sums
    with each() as step, side_by_side(lanes) as lane:
        value, factor = elements[place(step, lane)], total[lane]
        elements[place(step, lane)] = value - factor if logarithm else value * factor
