"""Softmax and its logarithm along rows that are shorter than a vector."""

from __future__ import annotations

from typing import Any

from tvmconv.operators import math
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import scratch, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor


def are_short(rows: int, size: int, lanes: int) -> bool:
    """Whether vectors of ``lanes`` rows cost less than a vector or more for each row."""
    return rows >= lanes and 4 * size <= 3 * lanes


def softmax_short_rows(data: Tensor, lanes: int, logarithm: bool) -> Tensor:
    """Softmax of each row of FP32 ``(rows, size)``, or its logarithm, ``lanes`` rows at a time.

    The rows are transposed in the nearest cache: a vector has one element of each row. There are at
    least ``lanes`` rows. The last group overlaps the one before it.
    """
    rows, size = (int(d) for d in data.shape)

    def write(ins: Any, outs: Any) -> Any:
        source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
        group = _Group(size, lanes)

        def unit(number: Any) -> None:
            first = tirx.min(number * lanes, rows - lanes)
            with T.serial(0, lanes) as row, T.serial(0, size) as place:
                group.elements[place * lanes + row] = source[first + row, place]
            group.normalize(logarithm)
            with T.serial(0, lanes) as row, T.serial(0, size) as place:
                target[first + row, place] = group.elements[place * lanes + row]

        return tasks(-(-rows // lanes), lanes * size, group.allocate, unit)

    result: Any = te.extern(
        [(rows, size)], [data], write, dtype=["float32"], name="softmax_short_rows"
    )
    return result


class _Group:
    """A group of rows: ``elements`` has the first element of each, then the second of each."""

    elements: Any

    def __init__(self, size: int, lanes: int) -> None:
        self._size, self._lanes = size, lanes

    def allocate(self) -> None:
        """Make the buffer of the elements."""
        self.elements = scratch(self._size * self._lanes, "float32")

    def normalize(self, logarithm: bool) -> None:
        """Replace the elements by the results."""
        lanes, elements = self._lanes, self.elements
        peak, total = registers(lanes), registers(lanes)
        for first in range(0, self._size * lanes, lanes):
            with side_by_side(lanes) as lane:
                value = elements[first + lane]
                peak[lane] = tirx.max(peak[lane], value) if first else value
        for first in range(0, self._size * lanes, lanes):
            with side_by_side(lanes) as lane:
                value = elements[first + lane] - peak[lane]
                elements[first + lane] = value if logarithm else exp_of_negative(value)
                power = elements[first + lane]
                power = exp_of_negative(power) if logarithm else power
                total[lane] = total[lane] + power if first else power
        with side_by_side(lanes) as lane:
            sums = total[lane]
            total[lane] = math.log(sums) if logarithm else math.constant(1.0) / sums
        for first in range(0, self._size * lanes, lanes):
            with side_by_side(lanes) as lane:
                value, factor = elements[first + lane], total[lane]
                elements[first + lane] = value - factor if logarithm else value * factor
