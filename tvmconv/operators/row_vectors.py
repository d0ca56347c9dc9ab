"""Vectors that cover a row, and reductions of rows to one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr

# vectors whose results do not wait for each other
_VECTORS = 4


class RowVectors:
    """Vectors of at most ``lanes`` neighbors that cover ``size`` elements.

    The last vector overlaps the previous one, so that no element is computed by itself.
    """

    def __init__(self, size: int, lanes: int) -> None:
        self.width = min(lanes, 1 << (size.bit_length() - 1))
        self._size, self._whole = size, size // self.width
        self._slots = min(_VECTORS, self._whole)

    @property
    def rest(self) -> int:
        """Elements that only the last vector covers."""
        return self._size % self.width

    def sweep(self, step: Callable[[Any, int, int], None]) -> None:
        """Call ``step`` for each vector.

        Its arguments are the first element, one of the independent vectors, and how many elements
        the previous vector covers too.
        """
        slots, width = self._slots, self.width
        groups, single = divmod(self._whole, slots)
        with T.serial(0, groups) as group:
            for slot in range(slots):
                step((group * slots + slot) * width, slot, 0)
        for slot in range(single):
            step((groups * slots + slot) * width, slot, 0)
        if self.rest:
            step(self._size - width, slots, width - self.rest)

    def reduced(
        self, start: Expr, value: Callable[[Any], Any], combine: Callable[[Any, Any], Expr]
    ) -> Any:
        """The combination of ``value`` at each element and of ``start``, which changes nothing."""
        width, slots = self.width, self._slots + bool(self.rest)
        parts = registers(slots * width, str(start.ty.dtype))
        for slot in range(slots):
            with side_by_side(width) as lane:
                parts[slot * width + lane] = start

        def step(begin: Any, slot: int, covered: int) -> None:
            with side_by_side(width) as lane:
                own, place = value(begin + lane), slot * width + lane
                if covered:
                    own = tirx.Select(lane >= covered, own, start)
                parts[place] = combine(parts[place], own)

        self.sweep(step)
        for slot in range(1, slots):
            with side_by_side(width) as lane:
                parts[lane] = combine(parts[lane], parts[slot * width + lane])
        while width > 1:
            width //= 2
            with side_by_side(width) as lane:
                parts[lane] = combine(parts[lane], parts[width + lane])
        return parts[0]


def registers(size: int, dtype: str = "float32") -> Any:
    """A small buffer whose elements LLVM keeps in registers if their indices are constant."""
    return T.buffer_proxy(T.decl_buffer([size], dtype, scope="local"))


def side_by_side(width: int) -> Any:
    """A loop over the elements of a vector."""
    return (T.vectorized if width > 1 else T.serial)(0, width)
