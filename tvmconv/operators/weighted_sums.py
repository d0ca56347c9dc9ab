"""Sums of weighted elements along one axis: resizing with many neighbors."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvmconv.operators.registers import LANES, Registers
from tvmconv.operators.vector_loops import blocks, ramp, scratch, spread, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

# vectors of neighboring elements whose sums stay in registers
_VECTORS = 4


def weighted_sums(data: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """Resize ``(outer, size, inner)`` to ``(outer, length, inner)``.

    An element of the result is the sum of the elements at ``indices``, times ``weights``. Both are
    ``(length, taps)``.
    """
    outer, _, inner = (int(size) for size in data.shape)
    length, taps = (int(size) for size in indices.shape)
    dtype = str(data.dtype)

    def write(ins: Any, outs: Any) -> Any:
        source, places, factors, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))

        def block(row: Any, place: Any, start: Any, width: int) -> None:
            sums = Registers(width, dtype)
            sums.fill(tirx.const(0, dtype))
            with T.serial(0, taps) as tap:
                index, factor = places[place, tap], factors[place, tap]

                def added(old: Any, shift: int, lanes: int) -> Any:
                    value = source[row, index, ramp(start + shift, lanes)]
                    return old + value * spread(factor, lanes)

                sums.update(added)
            sums.store(result, row, place, start)

        def unit(number: Any) -> None:
            row, place = number // length, number % length
            blocks(inner, _VECTORS * LANES, partial(block, row, place))

        return tasks(outer * length, taps * inner, lambda: None, unit)

    found: Any = te.extern(
        [(outer, length, inner)], [data, indices, weights], write, dtype=[dtype], name="sums"
    )
    return found


def weighted_rows(data: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """Resize ``(outer, size)`` to ``(outer, length)``; the tables are ``(taps, length)``."""
    outer, _ = (int(size) for size in data.shape)
    taps, length = (int(size) for size in indices.shape)
    dtype = str(data.dtype)

    def write(ins: Any, outs: Any) -> Any:
        source, places, factors, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
        buffers: list[Any] = []

        def unit(row: Any) -> None:
            (sums,) = buffers
            with T.serial(0, length) as place:
                sums[place] = tirx.const(0, dtype)
            with T.grid(taps, length) as (tap, place):
                value = source[row, places[tap, place]]
                sums[place] = sums[place] + value * factors[tap, place]
            with T.serial(0, length) as place:
                result[row, place] = sums[place]

        return tasks(outer, taps * length, lambda: buffers.append(scratch(length, dtype)), unit)

    found: Any = te.extern(
        [(outer, length)], [data, indices, weights], write, dtype=[dtype], name="sums"
    )
    return found
