"""Images from columns of blocks, which are added where they overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from tvmconv.core.stored_types import numpy_type
from tvmconv.operators.vector_loops import (
    pieces,
    place_of,
    ramp,
    scratch,
    shared,
    spread,
)
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# vectors that every processor has, if in two parts
_VECTOR_BYTES = 32
# elements of a block's row, or phases of the stride, that have code of their own
_MOST_TAPS = 16


def columns_to_image(
    data: Tensor,
    image: Sequence[int],
    block: Sequence[int],
    places: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    begin: Sequence[int],
) -> Tensor:
    """Images ``(count, *image)`` from ``(count, prod(block), *places)``.

    An element of a block is at ``place * stride + element * dilation - begin`` along each axis.
    """
    count, dtype = int(data.shape[0]), str(data.dtype)
    outer = prod(image[:-1])

    def write(ins: Any, outs: Any) -> Any:
        source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
        with IRBuilder() as builder:
            with shared(count * outer) as unit:
                sums = _RowSums(dtype, image[-1], places[-1], strides[-1])
                line = place_of(unit % outer, image[:-1])
                with T.serial(0, prod(block[:-1])) as tap:
                    elements = place_of(tap, block[:-1])
                    place, tests = [], []
                    for i, spot in enumerate(line):
                        distance = spot + begin[i] - elements[i] * dilations[i]
                        place.append(distance // strides[i])
                        tests += [distance >= 0, distance < places[i] * strides[i]]
                        tests += [distance % strides[i] == 0] if strides[i] > 1 else []
                    row = (unit // outer, tap * block[-1], place)
                    with _condition(tests):
                        sums.add(source, row, block[-1], dilations[-1], begin[-1])
                sums.store(target, unit)
            return builder.get()

    result: Any = te.extern(
        [[count * outer, image[-1]]], [data], write, dtype=[dtype], name="columns_to_image"
    )
    return result


# image, first element of a block's row, and place along the other axes
_Row = tuple[Any, Any, list[Any]]


class _RowSums:
    """The sums of one row of an image: one vector for each phase of the stride."""

    def __init__(self, dtype: str, size: int, places: int, stride: int) -> None:
        self.dtype, self.size, self.places, self.stride = dtype, size, places, stride
        self.slots = -(-size // stride)
        # TVM has no vectors of booleans
        self.lanes = 1 if dtype == "bool" else max(1, _VECTOR_BYTES // numpy_type(dtype).itemsize)
        self.sums = scratch(stride * self.slots, dtype)
        zero = tirx.const(0, dtype)

        def clear(first: Any, width: int) -> None:
            self.sums[ramp(first, width)] = spread(zero, width)

        pieces(stride * self.slots, self.lanes, clear)

    def add(self, source: Any, row: _Row, taps: int, dilation: int, begin: int) -> None:
        """Add all elements of a row of the blocks."""
        if taps > _MOST_TAPS:
            with T.serial(0, taps) as element:
                start = element * dilation - begin
                low = tirx.max(0, -(start // self.stride))
                end = tirx.min(self.places, (self.size - 1 - start) // self.stride + 1)
                with T.serial(0, tirx.max(end - low, 0)) as number:
                    shift = start // self.stride
                    self._add(source, row, start % self.stride, low + number + shift, 1,
                              [(element, shift)])  # fmt: skip
            return
        phases: dict[int, list[tuple[int, int]]] = {}
        for element in range(taps):
            shift, phase = divmod(element * dilation - begin, self.stride)
            phases.setdefault(phase, []).append((element, shift))
        for phase, elements in phases.items():
            self._add_phase(source, row, phase, elements)

    def _add_phase(
        self, source: Any, row: _Row, phase: int, elements: list[tuple[int, int]]
    ) -> None:
        """Vectors where all elements have a place; others one by one: sums stay in registers."""
        slots = (self.size - 1 - phase) // self.stride + 1
        ranges = [(max(0, shift), min(slots, self.places + shift)) for _, shift in elements]
        low, end = max(low for low, _ in ranges), min(end for _, end in ranges)
        if low < end:

            def store(first: Any, width: int) -> None:
                self._add(source, row, phase, low + first, width, elements)

            pieces(end - low, self.lanes, store, overlap=False)
        else:
            low = end = 0
        for pair, (begin, stop) in zip(elements, ranges, strict=True):
            parts = ((begin, min(low, stop)), (max(end, begin), stop)) if low < end else (
                (begin, stop),)  # fmt: skip
            for first, last in parts:
                if first < last:
                    with T.serial(first, last) as slot:
                        self._add(source, row, phase, slot, 1, [pair])

    def _add(
        self, source: Any, row: _Row, phase: Any, slot: Any, width: int,
        elements: Sequence[tuple[Any, Any]],
    ) -> None:  # fmt: skip
        item, tap, place = row
        to = ramp(phase * self.slots + slot, width)
        total = self.sums[to]
        for element, shift in elements:
            new = source[(item, tap + element, *place, ramp(slot - shift, width))]
            total = tirx.any(total, new) if self.dtype == "bool" else total + new
        self.sums[to] = total

    def store(self, target: Any, unit: Any) -> None:
        """Write the row; neighbors come from one vector of each phase."""
        if self.stride > _MOST_TAPS:
            with T.serial(0, self.size) as place:
                slot = place % self.stride * self.slots + place // self.stride
                target[unit, place] = self.sums[slot]
            return
        whole, rest = divmod(self.size, self.stride)
        with T.serial(0, whole) as slot:
            for phase in range(self.stride):
                to = slot * self.stride + phase
                target[unit, to] = self.sums[phase * self.slots + slot]
        for phase in range(rest):
            target[unit, whole * self.stride + phase] = self.sums[phase * self.slots + whole]


@contextmanager
def _condition(tests: Sequence[Any]) -> Iterator[None]:
    """Code that runs if all tests hold."""
    if not tests:
        yield
        return
    with T.If(tirx.all(*tests)), T.Then():
        yield
