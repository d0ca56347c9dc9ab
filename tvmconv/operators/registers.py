"""Vectors of neighboring elements that stay in registers across loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.row_vectors import registers
from tvmconv.operators.vector_loops import ramp, spread

# the length of the longest vector; LLVM cuts it for other machines
LANES = 16


class Registers:
    """Accumulators of ``width`` neighbors."""

    def __init__(self, width: int, dtype: str) -> None:
        self.parts: list[tuple[int, int, Any]] = []
        done = 0
        while done < width:
            lanes = min(LANES, 1 << ((width - done).bit_length() - 1))
            buffer = registers(lanes, dtype)
            self.parts.append((done, lanes, buffer))
            done += lanes

    def fill(self, value: Any) -> None:
        """Set all elements."""
        self.update(lambda _, __, lanes: spread(value, lanes))

    def update(self, function: Callable[[Any, int, int], Any]) -> None:
        """Replace each vector by a function of it, its first element and its lanes."""
        for shift, lanes, buffer in self.parts:
            buffer[ramp(0, lanes)] = function(buffer[ramp(0, lanes)], shift, lanes)

    def store(self, target: Any, *place: Any) -> None:
        """Write all elements from a place on, along its last axis."""
        *outer, start = place
        for shift, lanes, buffer in self.parts:
            target[(*outer, ramp(start + shift, lanes))] = buffer[ramp(0, lanes)]
