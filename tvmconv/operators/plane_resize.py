"""Resizing of planes whose rows are contiguous, each axis by itself.

Indices and weights are tables. Each row of the input is resized once, even if several output rows
read it. If there are fewer output rows than input rows that they read, rows are combined first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvmconv.operators.pool import tree
from tvmconv.operators.vector_loops import pieces, ramp, scratch, spread, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

_Array = NDArray[Any]
# Resized rows of a block: with the output, the second cache holds them.
_STAGE_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Taps:
    """The input elements of each output element along an axis of ``size`` input elements.

    ``indices`` and ``weights`` are ``(taps, length)``. ``weights`` is None if elements are copied.
    """

    size: int
    indices: _Array
    weights: _Array | None = None

    @property
    def length(self) -> int:
        """Elements of the output."""
        return int(self.indices.shape[1])

    @property
    def repeats(self) -> int:
        """How many times each element is repeated, 0 if they are not repeated alike."""
        times = self.length // self.size
        repeated = np.arange(self.length) // max(times, 1)
        return times if self.weights is None and np.array_equal(self.indices[0], repeated) else 0

    @classmethod
    def nearest(cls, size: int, length: int) -> Taps:
        """Each output is the input at the floor of its place."""
        return cls(size, np.arange(length)[None] * size // length)

    @classmethod
    def linear(cls, size: int, length: int, transform: str) -> Taps:
        """Two neighbors for each output; ``transform`` as in ``relax.image.resize2d``."""
        place = np.arange(length, dtype=np.float64)
        if transform == "align_corners":
            place *= (size - 1) / max(length - 1, 1)
        elif transform == "asymmetric":
            place *= size / length
        else:
            place = (place + 0.5) * (size / length) - 0.5
        low = np.floor(place)
        part = place - low
        indices = np.clip(np.stack([low, low + 1]), 0, size - 1).astype(np.int64)
        return cls(size, indices, np.stack([1 - part, part]).astype(np.float32))


@dataclass(frozen=True)
class Tables:
    """The tables of one resize, as arguments of its function.

    A block of ``block`` output rows reads up to ``lines`` rows of the input. All blocks read
    ``read`` rows. ``integers`` has, in this order:

    - the columns' indices,
    - the indices of rows that are read,
    - the taps of output rows, as positions among these rows,
    - begin and end of each block's rows.
    """

    rows: Taps
    columns: Taps
    block: int
    lines: int
    read: int
    integers: _Array
    weights: _Array

    @classmethod
    def of(cls, rows: Taps, columns: Taps) -> Tables:
        """The tables, for blocks of rows that the second cache holds."""
        read, taps = np.unique(rows.indices, return_inverse=True)
        taps = taps.reshape(rows.indices.shape)
        block = rows.length
        while True:
            starts = range(0, rows.length, block)
            first = [int(taps[:, s : s + block].min()) for s in starts]
            last = [int(taps[:, s : s + block].max()) + 1 for s in starts]
            lines = max(b - a for a, b in zip(first, last, strict=True))
            if block == 1 or (lines + block) * columns.length <= _STAGE_ELEMENTS:
                break
            block = -(-block // 2)
        ends = np.array([first, last]).ravel()
        integers = [columns.indices.ravel(), read, taps.ravel(), ends]
        weights = [t.weights.ravel() for t in (columns, rows) if t.weights is not None]
        return cls(
            rows,
            columns,
            block,
            lines,
            len(read),
            np.concatenate(integers).astype(np.int32),
            np.concatenate([*weights, [0]]).astype(np.float32),
        )

    @property
    def rows_first(self) -> bool:
        """Whether rows are combined before they are resized: the fewer rows are resized."""
        return self.read > self.rows.length

    @property
    def blocks(self) -> int:
        """Blocks of output rows."""
        return -(-self.rows.length // self.block)


def plane_resize(
    data: Tensor, integers: Tensor, weights: Tensor, tables: Tables, lanes: int
) -> Tensor:
    """Resize FP32 planes ``(planes, H, W)`` to ``(planes, OH, OW)``, by vectors of ``lanes``.

    ``integers`` and ``weights`` are the arrays of ``tables``.
    """
    shape = (int(data.shape[0]), tables.rows.length, tables.columns.length)

    def write(ins: Any, outs: Any) -> Any:
        buffers = [T.buffer_proxy(buffer) for buffer in (*ins, *outs)]
        return _ResizeLoops(buffers, tables, lanes).write(shape[0])

    name = "plane_resize"
    result: Any = te.extern([shape], [data, integers, weights], write, dtype=["float32"], name=name)
    return result


class _ResizeLoops:
    """Writes the loops of one resize."""

    def __init__(self, buffers: list[Any], tables: Tables, lanes: int) -> None:
        self.data, self.integers, self.weights, self.result = buffers
        self.tables, self.lanes = tables, lanes
        self.rows, self.columns = tables.rows, tables.columns
        self.width = tables.columns.length
        self.read = self.columns.indices.size
        self.taps = self.read + tables.read
        self.first = self.taps + self.rows.indices.size
        self.row_weights = 0 if self.columns.weights is None else self.columns.weights.size

    def write(self, planes: int) -> Any:
        units, work = planes * self.tables.blocks, self.tables.block * self.width
        return tasks(units, work, self._allocate, self._unit)

    def _allocate(self) -> None:
        tables = self.tables
        size = self.columns.size if tables.rows_first else tables.lines * self.width
        self.lines = scratch(size, "float32")

    def _unit(self, unit: Any) -> None:
        tables = self.tables
        plane, block = unit // tables.blocks, unit % tables.blocks
        start = block * tables.block
        count = tirx.min(tables.block, self.rows.length - start)
        if tables.rows_first:
            with T.serial(0, count) as number:
                row = start + number
                pieces(self.columns.size, self.lanes, partial(self._combined, plane, row))
                with T.serial(0, self.width) as column:
                    self.result[plane, row, column] = self._gathered(column, self._line_element)
            return
        first, last = (
            self.integers[self.first + side * tables.blocks + block] for side in range(2)
        )
        with T.serial(0, last - first) as line:
            row = self.integers[self.read + first + line]
            if self.columns.repeats and self.lanes % self.columns.repeats == 0:
                pieces(self.width, self.lanes, partial(self._repeated, plane, row, line))
            else:
                element = partial(self._element, plane, row)
                # a plain loop: the compiler knows whether gathers are worth their time
                with T.serial(0, self.width) as column:
                    self.lines[line * self.width + column] = self._gathered(column, element)
        with T.serial(0, count) as number:
            row = start + number
            pieces(self.width, self.lanes, partial(self._between, plane, row, first))

    def _element(self, plane: Any, row: Any, column: Any) -> Any:
        return self.data[plane, row, column]

    def _line_element(self, column: Any) -> Any:
        return self.lines[column]

    def _repeated(self, plane: Any, row: Any, line: Any, column: Any, width: int) -> None:
        times = self.columns.repeats
        place = ramp(line * self.width + column, width)
        if times == 1:
            self.lines[place] = self.data[plane, row, ramp(column, width)]
            return
        source = self.data[plane, row, ramp(column // times, width // times)]
        if width == times:
            self.lines[place] = spread(source, width)
            return
        # a shuffle gives no more lanes than it takes
        spots = [tirx.const(lane // times, "int32") for lane in range(width)]
        self.lines[place] = tirx.Shuffle([source] * times, spots)

    def _gathered(self, column: Any, element: Callable[[Any], Any]) -> Any:
        """One element of a resized row."""
        values = []
        for tap in range(len(self.columns.indices)):
            value = element(self.integers[tap * self.width + column])
            if self.columns.weights is not None:
                value = value * self.weights[tap * self.width + column]
            values.append(value)
        return tree(values, add)

    def _combined(self, plane: Any, row: Any, column: Any, width: int) -> None:
        """Elements of the input between rows."""

        def line(tap: int) -> Any:
            source = self.integers[self.read + self.integers[self.taps + self._tap(tap, row)]]
            return self.data[plane, source, ramp(column, width)]

        self.lines[ramp(column, width)] = self._weighted(row, width, line)

    def _between(self, plane: Any, row: Any, first: Any, column: Any, width: int) -> None:
        """Elements of the output between resized rows."""

        def line(tap: int) -> Any:
            number = self.integers[self.taps + self._tap(tap, row)] - first
            return self.lines[ramp(number * self.width + column, width)]

        self.result[plane, row, ramp(column, width)] = self._weighted(row, width, line)

    def _tap(self, tap: int, row: Any) -> Any:
        return tap * self.rows.length + row

    def _weighted(self, row: Any, width: int, line: Callable[[int], Any]) -> Any:
        values = []
        for tap in range(len(self.rows.indices)):
            value = line(tap)
            if self.rows.weights is not None:
                weight = self.weights[self.row_weights + self._tap(tap, row)]
                value = value * spread(weight, width)
            values.append(value)
        return tree(values, add)
