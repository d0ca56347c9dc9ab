"""Groups of rows that are shorter than a vector: a vector has one element of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.row_vectors import side_by_side
from tvmconv.operators.vector_loops import pieces, scratch
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# elements of a row that are transposed at a time: a 128-bit lane of a vector
PIECE = 4


def are_short(rows: int, size: int, lanes: int, passes: int = 1) -> bool:
    """Whether vectors of ``lanes`` rows cost less than a vector or more for each row.

    ``passes`` are the sums of each row, whose last vector is added up lane by lane.
    """
    longest = 3 * lanes // 4 if passes == 1 else passes * lanes
    return rows >= lanes and size <= longest


class RowGroups:
    """Rows of FP32 ``(rows, size)``, ``lanes`` of them at a time.

    The last group overlaps the one before it. There are at least ``lanes`` rows. ``transposed`` is
    the annotation of loops that copy elements in registers. It makes squares of rows of at least
    :data:`PIECE` elements, and takes shorter rows as a whole.
    """

    elements: Any

    def __init__(self, rows: int, size: int, lanes: int, transposed: str) -> None:
        self._rows, self._size, self._lanes = rows, size, lanes
        self._transposed = transposed

    @property
    def count(self) -> int:
        """Groups of all rows."""
        return -(-self._rows // self._lanes)

    @property
    def work(self) -> int:
        """Elements of a group."""
        return self._size * self._lanes

    def allocate(self) -> None:
        """Make the buffer of a group: the first element of each row, then the second of each."""
        self.elements = scratch(self.work, "float32")

    def first(self, number: Any) -> Any:
        """The first row of a group."""
        return tirx.min(number * self._lanes, self._rows - self._lanes)

    def load(self, source: Any, first: Any) -> None:
        """Read the elements of a group."""

        def move(begin: Any, width: int) -> None:
            with self._lines() as row, side_by_side(width) as place:
                element = source[first + row, begin + place]
                self.elements[(begin + place) * self._lanes + row] = element

        self._cover(move)

    def store(self, target: Any, first: Any) -> None:
        """Write the elements of a group."""

        def move(begin: Any, width: int) -> None:
            with self._lines() as row, side_by_side(width) as place:
                element = self.elements[(begin + place) * self._lanes + row]
                target[first + row, begin + place] = element

        self._cover(move)

    def _cover(self, move: Callable[[Any, int], None]) -> None:
        if self._size < PIECE:
            move(0, self._size)
        else:
            pieces(self._size, PIECE, move)

    def _lines(self) -> Any:
        return T.serial(0, self._lanes, annotations={self._transposed: 1})
