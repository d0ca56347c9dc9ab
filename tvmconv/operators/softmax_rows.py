"""Softmax and its logarithm along rows, by vectors of fixed length."""

from __future__ import annotations

from math import inf
from typing import Any

from tvmconv.operators import math
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.operators.row_vectors import RowVectors, registers, side_by_side
from tvmconv.operators.vector_loops import tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

# elements of rows that stay in L1 until the logarithms of their sums are known
_GROUPED = 4096


def softmax_rows(data: Tensor, lanes: int, logarithm: bool) -> Tensor:
    """Softmax of each row of FP32 ``(rows, size)``, or its logarithm.

    Three passes over each row follow each other: maximum, exponentials with their sum, scaling. The
    logarithms of the sums of several short rows are one vector. A vector has ``lanes`` elements.
    """
    rows, size = (int(d) for d in data.shape)
    group = lanes if logarithm and size * lanes <= _GROUPED and rows >= lanes else 1

    def write(ins: Any, outs: Any) -> Any:
        loops = _Rows(ins[0], outs[0], size, lanes)

        def units(unit: Any) -> None:
            first = unit * group
            loops.write(first, tirx.min(group, rows - first), group, logarithm)

        return tasks(-(-rows // group), group * size, lambda: None, units)

    result: Any = te.extern([(rows, size)], [data], write, dtype=["float32"], name="softmax_rows")
    return result


class _Rows:
    """The loops of a group of rows."""

    def __init__(self, source: Any, target: Any, size: int, lanes: int) -> None:
        self._source, self._target = T.buffer_proxy(source), T.buffer_proxy(target)
        self._size, self._vectors = size, RowVectors(size, lanes)

    def write(self, first: Any, count: Any, group: int, logarithm: bool) -> None:
        """Normalize ``count`` rows, of at most ``group``."""
        peaks, totals = registers(group), registers(group)
        with side_by_side(group) as index:
            totals[index] = math.constant(1.0)
        with T.serial(0, count) as index:
            peaks[index] = self._peak(first + index)
            totals[index] = self._total(first + index, peaks[index], keep=not logarithm)
        with side_by_side(group) as index:
            total = totals[index]
            totals[index] = math.log(total) if logarithm else math.constant(1.0) / total
        with T.serial(0, count) as index:
            self._finish(first + index, peaks[index], totals[index], logarithm)

    def _peak(self, row: Any) -> Any:
        start = math.constant(-inf)
        return self._vectors.reduced(start, lambda place: self._source[row, place], tirx.max)

    def _total(self, row: Any, peak: Any, keep: bool) -> Any:
        """The sum of the exponentials; ``keep`` stores them to the result."""

        def exponential(place: Any) -> Any:
            value = exp_of_negative(self._source[row, place] - peak)
            if not keep:
                return value
            self._target[row, place] = value
            return self._target[row, place]

        start = math.constant(0.0)
        return self._vectors.reduced(start, exponential, lambda left, right: left + right)

    def _finish(self, row: Any, peak: Any, factor: Any, logarithm: bool) -> None:
        source, target, width = self._source, self._target, self._vectors.width
        last = registers(width)

        def scaled(place: Any) -> Any:
            # the maximum by itself first: its sum with the logarithm would drop digits
            return source[row, place] - peak - factor if logarithm else target[row, place] * factor

        if self._vectors.rest:
            # before the previous vector scales some of its elements
            with side_by_side(width) as lane:
                last[lane] = scaled(self._size - width + lane)

        def store(start: Any, _: int, covered: int) -> None:
            with side_by_side(width) as lane:
                target[row, start + lane] = last[lane] if covered else scaled(start + lane)

        self._vectors.sweep(store)
