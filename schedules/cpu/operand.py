"""Which axes an operand of a matrix product has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvmconv.tvm_api.types import Expr, IndexMap


@dataclass(frozen=True)
class Operand:
    """The operand that holds the columns, and its axes of columns and of inner steps."""

    index: int
    axes: int
    column_axis: int
    inner_axis: int
    index_dtype: str

    def panels(self, width: int) -> IndexMap:
        """Index map to ``(.., n / width, k, n % width)``."""

        def position(*index: Expr) -> tuple[Expr, ...]:
            n, k = index[self.column_axis], index[self.inner_axis]
            matrix = (self.column_axis, self.inner_axis)
            outer = (item for axis, item in enumerate(index) if axis not in matrix)
            return (*outer, n // width, k, n % width)

        return index_map(position, self.axes, self.index_dtype)


def index_map(position: Callable[..., tuple[Expr, ...]], axes: int, dtype: str) -> IndexMap:
    """A map of a buffer's indices."""
    from tvmconv.tvm_api import tirx

    return tirx.IndexMap.from_func(position, ndim=axes, index_dtype=dtype)
