"""Rows for which a condition is true, copied by vectors."""

from __future__ import annotations

from typing import Any

from tvmconv.core.stored_types import numpy_type
from tvmconv.operators.vector_loops import one_task, pieces, ramp, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# bytes of the longest vector, and elements that a thread copies at once
_VECTOR, _TASK = 64, 1 << 14


def compressed(data: Tensor, condition: Tensor) -> list[Tensor]:
    """The rows of ``(outer, size, inner)`` whose condition is true, and how many these are.

    ``condition`` is ``(most,)`` of bool, and ``most`` at most ``size``. The result is
    ``(outer, most, inner)``. Rows after the last one repeat the first row of integers, as divisions
    may rely on a known range. Other types are not written there.
    """
    outer, _, inner = (int(extent) for extent in data.shape)
    most, dtype = int(condition.shape[0]), str(data.dtype)
    lanes = _VECTOR // numpy_type(dtype).itemsize
    chunk = max(1, min(most, _TASK // inner))
    parts = -(-most // chunk)

    def write(ins: Any, outs: Any) -> Any:
        source, chosen, target, extent = map(T.buffer_proxy, (*ins, *outs))

        def copy(row: Any, to: Any, of: Any) -> None:
            if inner == 1 or dtype == "bool":
                with T.serial(0, inner) as place:
                    target[row, to, place] = source[row, of, place]
                return

            def store(first: Any, count: int) -> None:
                columns = ramp(first, count)
                target[row, to, columns] = source[row, of, columns]

            pieces(inner, lanes, store)

        with IRBuilder() as builder:
            with one_task():
                # one more, as each position is written, and kept if its condition is true
                places, count = scratch(most + 1, "int32"), scratch(1, "int32")
                count[0] = tirx.const(0, "int32")
                with T.serial(0, most) as place:
                    places[count[0]] = place
                    count[0] = count[0] + tirx.Cast("int32", chosen[place])
                extent[0] = tirx.Cast("int64", count[0])
                with shared(outer * parts) as task:
                    row, first = task // parts, task % parts * chunk
                    last = tirx.min(first + chunk, most)
                    end = tirx.max(first, tirx.min(last, count[0]))
                    with T.serial(0, end - first) as number:
                        copy(row, first + number, places[first + number])
                    if not dtype.startswith(("float", "bfloat")):
                        with T.serial(0, last - end) as number:
                            copy(row, end + number, 0)
            return builder.get()

    shapes, types = [[outer, most, inner], [1]], [dtype, "int64"]
    return te.extern(shapes, [data, condition], write, dtype=types, name="compress")
