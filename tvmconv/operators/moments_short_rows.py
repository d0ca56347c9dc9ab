"""Means and inverse standard deviations of rows that are shorter than a vector."""

from __future__ import annotations

from typing import Any

from tvmconv.operators.math import constant
from tvmconv.operators.moments import inverse_deviation
from tvmconv.operators.row_groups import RowGroups
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import tasks
from tvmconv.tvm_api import te
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor


def short_row_moments(data: Tensor, epsilon: float, lanes: int, transposed: str) -> list[Tensor]:
    """Mean and ``1 / sqrt(variance + epsilon)`` of each row of FP32 ``(R, K)``, each ``(R,)``.

    As :func:`tvmconv.operators.moments.row_moments`, ``lanes`` rows at a time. There are at least
    ``lanes`` rows. ``transposed`` is as in :class:`tvmconv.operators.row_groups.RowGroups`.
    """
    rows, size = (int(d) for d in data.shape)

    def write(ins: Any, outs: Any) -> Any:
        source, means, inverses = (T.buffer_proxy(buffer) for buffer in (ins[0], *outs))
        groups = RowGroups(rows, size, lanes, transposed)

        def unit(number: Any) -> None:
            first = groups.first(number)
            groups.load(source, first)
            mean = _sums(groups.elements, size, lanes, lambda lane: groups.elements[lane])
            with side_by_side(lanes) as lane:
                shift = groups.elements[lane]
                mean[lane] = shift + mean[lane] * constant(1.0 / size)
            squares = _sums(groups.elements, size, lanes, lambda lane: mean[lane], square=True)
            with side_by_side(lanes) as lane:
                means[first + lane] = mean[lane]
            with side_by_side(lanes) as lane:
                inverses[first + lane] = inverse_deviation(squares[lane], size, epsilon)

        return tasks(groups.count, groups.work, groups.allocate, unit)

    shape = (rows,)
    found: Any = te.extern(
        [shape, shape], [data], write, dtype=["float32", "float32"], name="short_row_moments"
    )
    return list(found)


def _sums(elements: Any, size: int, lanes: int, shift: Any, *, square: bool = False) -> Any:
    """The sum of each row's distances from a number, or of their squares."""
    total = registers(lanes)
    with side_by_side(lanes) as lane:
        total[lane] = constant(0.0)
    for place in range(size):
        with side_by_side(lanes) as lane:
            distance = elements[place * lanes + lane] - shift(lane)
            total[lane] = total[lane] + (distance * distance if square else distance)
    return total
