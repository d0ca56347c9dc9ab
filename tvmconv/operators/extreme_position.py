"""Positions of the largest or smallest elements of rows, by vectors of fixed length."""

from __future__ import annotations

from typing import Any

from tvmconv.core.stored_types import numpy_type
from tvmconv.operators.row_vectors import RowVectors, registers
from tvmconv.operators.vector_loops import tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

TYPES = (
    *("float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
# elements that are compared before the block of the best one is known
_BLOCK = 256


def extreme_position(data: Tensor, largest: bool, vector_bytes: int) -> Tensor:
    """Index of the first largest or smallest element of each row of ``(rows, size)``.

    The extreme of a row is found first, and then the first element that equals it, in the block of
    the extreme only. NaN is never found; a row of nothing else gives 0.
    """
    rows, size = (int(d) for d in data.shape)

    def write(ins: Any, outs: Any) -> Any:
        row = _Row(ins[0], str(data.dtype), size, largest, vector_bytes)
        target = T.buffer_proxy(outs[0])

        def unit(number: Any) -> None:
            target[number] = row.position(number)

        return tasks(rows, size, lambda: None, unit)

    result: Any = te.extern([(rows,)], [data], write, dtype=["int64"], name="extreme_position")
    return result


class _Row:
    """The loops of one row."""

    def __init__(self, source: Any, dtype: str, size: int, largest: bool, bytes_: int) -> None:
        self._source, self._largest = T.buffer_proxy(source), largest
        self._size, self._block = size, min(size, _BLOCK)
        self._values = RowVectors(self._block, bytes_ // numpy_type(dtype).itemsize)
        self._places = RowVectors(self._block, bytes_ // numpy_type("int32").itemsize)
        self._worst = tirx.min_value(dtype) if largest else tirx.max_value(dtype)
        if dtype.startswith("float"):
            self._worst = tirx.const(float("-inf" if largest else "inf"), dtype)
        self._dtype = dtype

    def position(self, row: Any) -> Any:
        """The position, after the loops that find it."""
        best, begin = registers(1, self._dtype), registers(1, "int32")
        best[0], begin[0] = self._worst, tirx.const(0, "int32")
        with T.serial(0, -(-self._size // self._block)) as number:
            # the last block overlaps the previous one, whose elements then are not better
            first = tirx.min(number * self._block, self._size - self._block)
            found = self._values.reduced(
                self._worst, lambda place: self._source[row, first + place], self._better
            )
            with T.If(self._ahead(found, best[0])), T.Then():
                best[0], begin[0] = found, first
        nowhere = tirx.const(self._block, "int32")

        def place(index: Any) -> Any:
            same = self._source[row, begin[0] + index] == best[0]
            return tirx.Select(same, index, nowhere)

        found = self._places.reduced(nowhere, place, tirx.min)
        return tirx.Cast("int64", tirx.Select(found < nowhere, begin[0] + found, 0))

    def _ahead(self, left: Any, right: Any) -> Any:
        return left > right if self._largest else left < right

    def _better(self, kept: Any, own: Any) -> Any:
        return tirx.Select(self._ahead(own, kept), own, kept)
