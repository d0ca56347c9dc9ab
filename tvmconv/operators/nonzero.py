"""Positions of the elements that are not zero."""

from __future__ import annotations

from math import prod
from typing import Any

from tvmconv.operators.vector_loops import blocks, one_task, place_of, scratch
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# elements that are tested together: a block of zeros has no positions
_BLOCK = 64


def nonzero(data: Tensor) -> list[Tensor]:
    """A column for each element that is not zero: its index along each axis; and their number.

    Columns after the last element are not written.
    """
    shape = [int(size) for size in data.shape]
    size = prod(shape)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, places, extent = map(T.buffer_proxy, (*ins, *outs))
            with one_task():
                count, found, spots = (scratch(n, "int32") for n in (1, 1, _BLOCK))
                count[0] = tirx.const(0, "int32")

                def differs(flat: Any) -> Any:
                    return _is_nonzero(source[tuple(place_of(flat, shape))], str(data.dtype))

                def block(first: Any, length: int) -> None:
                    found[0] = tirx.const(0, "int32")
                    with T.serial(0, length) as place:
                        found[0] = tirx.bitwise_or(
                            found[0], tirx.Cast("int32", differs(first + place))
                        )
                    with T.If(found[0] != 0), T.Then():
                        # each element is written, and kept if it is not zero: no branch to predict
                        found[0] = tirx.const(0, "int32")
                        with T.serial(0, length) as place:
                            spots[found[0]] = first + place
                            found[0] = found[0] + tirx.Cast("int32", differs(first + place))
                        with T.serial(0, found[0]) as number:
                            for axis, index in enumerate(place_of(spots[number], shape)):
                                places[axis, count[0] + number] = tirx.Cast("int64", index)
                        count[0] = count[0] + found[0]

                blocks(size, _BLOCK, block)
                extent[0] = tirx.Cast("int64", count[0])
            return builder.get()

    shapes = [[len(shape), size], [1]]
    return te.extern(shapes, [data], write, dtype=["int64", "int64"], name="nonzero")


def _is_nonzero(element: Any, dtype: str) -> Any:
    """Whether an element is not zero, as a NaN is not: by its bits, all but the sign."""
    if dtype == "bool":
        return element
    if not dtype.startswith("float"):
        return element != tirx.const(0, dtype)
    bits = dtype.replace("float", "uint")
    magnitude = tirx.reinterpret(bits, element) << tirx.const(1, bits)
    return magnitude != tirx.const(0, bits)
