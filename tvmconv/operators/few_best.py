"""The few best elements of a row: most elements are dropped by a key that enough others reach.

The maxima of ``n`` parts of a row are ``n`` of its elements. The ``k``-th largest of the maxima is
hardly below the ``k``-th largest element, as the best elements are rarely in the same part.
"""

from __future__ import annotations

from typing import Any

from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.selection import COUNTED, Selection
from tvmconv.operators.vector_loops import blocks, scratch
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# keys that are tested together
_TESTED = 16
# most elements, and as a multiple of a vector's: more take as many parts, of which the ranks cost
# more than the rows
_FEW, _VECTORS = 32, 4
# fewest parts, and shortest row in elements of each part; keys of the longest one fit into L1
_PARTS, _SHORTEST, LONGEST = 32, 3, 8192


def are_few(size: int, k: int, lanes: int) -> bool:
    """Whether few elements of rows are wanted; the rows may be longer than :data:`LONGEST`.

    ``lanes`` are the FP32 numbers of a vector.
    """
    return 1 < k <= max(_FEW, _VECTORS * lanes) and size > _SHORTEST * _parts_of(k)


def _parts_of(k: int) -> int:
    """The parts of a row: a power of two, at least twice ``k``."""
    return max(_PARTS, 1 << (2 * k - 1).bit_length())


class FewBest(Selection):
    """The ``k`` best elements of a row: :func:`are_few`, and the row is at most that long."""

    def ordered(self) -> Any:
        """A buffer with the positions of the best elements in order, after the loops."""
        keys, lowest = scratch(self._size, self._dtype), scratch(1, self._dtype)
        parts = _parts_of(self._k)
        lowest[0] = self._reached(keys, parts)
        self._count[0] = tirx.const(0, "int32")
        found = scratch(1, "int32")

        def wanted(position: Any) -> Any:
            return keys[position] >= lowest[0]

        def block(first: Any, count: int) -> None:
            found[0] = tirx.const(0, "int32")
            with T.serial(0, count) as place:
                found[0] = found[0] | tirx.Cast("int32", wanted(first + place))
            with T.If(found[0] != 0), T.Then():
                with T.serial(0, count) as place:
                    self._append(keys[first + place], first + place, wanted(first + place))
                with T.If(self._count[0] > self._room), T.Then():
                    self._select()
                    # Later elements that equal the last one come after it. The highest key has
                    # none above.
                    last = self._threshold[0]
                    lowest[0] = last + tirx.Cast(self._dtype, last < ~self._number(0))

        blocks(self._size, _TESTED, block)
        with T.If(self._count[0] > parts), T.Then():
            self._select()
        return self._ranked(self._count[0], parts)

    def _reached(self, keys: Any, parts: int) -> Any:
        """A key that at least ``k`` elements reach; the keys of all elements are stored."""
        peaks, ranks = registers(parts, self._dtype), registers(parts, "int32")
        with side_by_side(parts) as lane:
            peaks[lane] = self._number(0)
            ranks[lane] = tirx.const(0, "int32")
        with T.serial(0, self._size // parts) as chunk:
            with side_by_side(parts) as lane:
                keys[chunk * parts + lane] = self._key(chunk * parts + lane)
            with side_by_side(parts) as lane:
                peaks[lane] = tirx.max(peaks[lane], keys[chunk * parts + lane])
        # the last elements are in no part: the others reach the key without them
        with T.serial(self._size // parts * parts, self._size) as place:
            keys[place] = self._key(place)
        others = scratch(parts, self._dtype)
        with side_by_side(parts) as lane:
            others[lane] = peaks[lane]
        counted = min(parts, COUNTED)
        for first in range(0, parts, counted):
            with T.serial(0, parts) as other, side_by_side(counted) as lane:
                place, its = first + lane, others[other]
                ranks[place] = ranks[place] + tirx.Cast("int32", its > peaks[place])
        with side_by_side(parts) as lane:
            peaks[lane] = tirx.Select(ranks[lane] < self._k, peaks[lane], ~self._number(0))
        width = parts
        while width > 1:
            width //= 2
            with side_by_side(width) as lane:
                peaks[lane] = tirx.min(peaks[lane], peaks[width + lane])
        return peaks[0]
