"""Functions of whole vectors, whose far elements are computed one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tvmconv.operators.vector_loops import pieces, ramp, scratch, spread, tasks
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# elements between two tests for far elements
_BLOCK = 512


class FarElements(ABC):
    """The loops: whole vectors, and single elements where any of a block is far.

    ``far`` has a number for each lane. It is not zero where an element of the block is far.
    """

    def __init__(self, size: int, lanes: int) -> None:
        self.size, self.block, self.lanes = size, min(size, _BLOCK), lanes

    @abstractmethod
    def vector(self, place: Any, width: int) -> None:
        """Write ``width`` results, and mark in ``far`` which elements are far."""

    @abstractmethod
    def element(self, place: Any) -> None:
        """Write one result, if its element is far."""

    def write(self) -> Any:
        """All loops; the last block overlaps the block before it."""
        return tasks(-(-self.size // self.block), self.block, self._allocate, self._unit)

    def _allocate(self) -> None:
        self.far = scratch(self.lanes, "int32")

    def _unit(self, unit: Any) -> None:
        first = tirx.min(unit * self.block, self.size - self.block)
        self.far[ramp(0, self.lanes)] = spread(tirx.const(0, "int32"), self.lanes)
        pieces(self.block, self.lanes, lambda start, width: self.vector(first + start, width))
        width = self.lanes
        while width > 1:
            width //= 2
            upper, lower = (self.far[ramp(place, width)] for place in (width, 0))
            self.far[ramp(0, width)] = upper | lower
        with T.If(self.far[0] != 0), T.Then(), T.serial(0, self.block) as number:
            self.element(first + number)
