"""Softmax and its logarithm along rows, by vectors of fixed length."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from tvmconv.operators import math
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.operators.vector_loops import tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr, Tensor

# vectors whose maxima and sums do not wait for each other
_VECTORS = 4
# elements of rows that stay in L1 until the logarithms of their sums are known
_GROUPED = 4096


def softmax_rows(data: Tensor, lanes: int, logarithm: bool) -> Tensor:
    """Softmax of each row of FP32 ``(rows, size)``, or its logarithm.

    Three passes over each row follow each other: maximum, exponentials with their sum, scaling. The
    last vector of a row overlaps the previous one, so that no element is computed by itself. The
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
        self._size, self._width = size, min(lanes, 1 << (size.bit_length() - 1))
        self._whole = size // self._width
        self._slots = min(_VECTORS, self._whole)

    def write(self, first: Any, count: Any, group: int, logarithm: bool) -> None:
        """Normalize ``count`` rows, of at most ``group``."""
        peaks, totals = _registers(group), _registers(group)
        with _lanes(group) as index:
            totals[index] = math.constant(1.0)
        with T.serial(0, count) as index:
            peaks[index] = self._peak(first + index)
            totals[index] = self._total(first + index, peaks[index], keep=not logarithm)
        with _lanes(group) as index:
            total = totals[index]
            totals[index] = math.log(total) if logarithm else math.constant(1.0) / total
        with T.serial(0, count) as index:
            self._finish(first + index, peaks[index], totals[index], logarithm)

    def _peak(self, row: Any) -> Any:
        return self._reduced(-inf, lambda place: self._source[row, place], tirx.max)

    def _total(self, row: Any, peak: Any, keep: bool) -> Any:
        """The sum of the exponentials; ``keep`` stores them to the result."""

        def exponential(place: Any) -> Any:
            value = exp_of_negative(self._source[row, place] - peak)
            if not keep:
                return value
            self._target[row, place] = value
            return self._target[row, place]

        return self._reduced(0.0, exponential, lambda left, right: left + right)

    def _finish(self, row: Any, peak: Any, factor: Any, logarithm: bool) -> None:
        source, target, width = self._source, self._target, self._width
        last = _registers(width)

        def scaled(place: Any) -> Any:
            # the maximum by itself first: its sum with the logarithm would drop digits
            return source[row, place] - peak - factor if logarithm else target[row, place] * factor

        if self._size % width:
            # before the previous vector scales some of its elements
            with _lanes(width) as lane:
                last[lane] = scaled(self._size - width + lane)

        def store(start: Any, _: int, covered: int) -> None:
            with _lanes(width) as lane:
                target[row, start + lane] = last[lane] if covered else scaled(start + lane)

        self._sweep(store)

    def _reduced(
        self, start: float, value: Callable[[Any], Any], combine: Callable[[Any, Any], Expr]
    ) -> Any:
        """The combination of a value for each element of a row."""
        width, slots = self._width, self._slots + 1
        parts = _registers(slots * width)
        for slot in range(slots):
            with _lanes(width) as lane:
                parts[slot * width + lane] = math.constant(start)

        def step(begin: Any, slot: int, covered: int) -> None:
            with _lanes(width) as lane:
                own, place = value(begin + lane), slot * width + lane
                if covered:
                    own = tirx.Select(lane >= covered, own, math.constant(start))
                parts[place] = combine(parts[place], own)

        self._sweep(step)
        for slot in range(1, slots):
            with _lanes(width) as lane:
                parts[lane] = combine(parts[lane], parts[slot * width + lane])
        while width > 1:
            width //= 2
            with _lanes(width) as lane:
                parts[lane] = combine(parts[lane], parts[width + lane])
        return parts[0]

    def _sweep(self, step: Callable[[Any, int, int], None]) -> None:
        """Call ``step`` for vectors that cover the row.

        Its arguments are the first element, one of the independent vectors, and how many elements
        the previous vector covers too.
        """
        slots, width = self._slots, self._width
        groups, single = divmod(self._whole, slots)
        with T.serial(0, groups) as group:
            for slot in range(slots):
                step((group * slots + slot) * width, slot, 0)
        for slot in range(single):
            step((groups * slots + slot) * width, slot, 0)
        if rest := self._size % width:
            step(self._size - width, slots, width - rest)


def _registers(size: int) -> Any:
    return T.buffer_proxy(T.decl_buffer([size], "float32", scope="local"))


def _lanes(width: int) -> Any:
    """A loop over the elements of a vector."""
    return (T.vectorized if width > 1 else T.serial)(0, width)
