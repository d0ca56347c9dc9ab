"""Vectors of neighboring elements that stay in registers across loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.vector_loops import ramp, spread
from tvmconv.tvm_api.ir_builder import T

# the length of the longest vector; LLVM cuts it for other machines
LANES = 16


class Registers:
    """Accumulators of ``width`` neighbors."""

    def __init__(self, width: int, dtype: str) -> None:
        self.parts: list[tuple[int, int, Any]] = []
        done = 0
        while done < width:
            lanes = min(LANES, 1 << ((width - done).bit_length() - 1))
            buffer = T.buffer_proxy(T.decl_buffer([lanes], dtype, scope="local"))
            self.parts.append((done, lanes, buffer))
            done += lanes

    def fill(self, value: Any) -> None:
        """Set all elements."""
        self.update(lambda _, __, lanes: spread(value, lanes))

    def update(self, function: Callable[[Any, int, int], Any]) -> None:
        """Replace each vector by a function of it, its first element and its lanes."""
        for shift, lanes, buffer in self.parts:
            buffer[ramp(0, lanes)] = function(buffer[ramp(0, lanes)], shift, lanes)

    def store(self, target: Any, start: Any) -> None:
        """Write all elements from an index on."""
        for shift, lanes, buffer in self.parts:
            target[ramp(start + shift, lanes)] = buffer[ramp(0, lanes)]
