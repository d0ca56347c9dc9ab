"""The few best elements of a row: most elements are dropped by a key that enough others reach.

The maxima of ``n`` parts of a row are ``n`` of its elements. The ``k``-th largest of the maxima is
hardly below the ``k``-th largest element, as the best elements are rarely in the same part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.selection import COUNTED, Selection
from tvmconv.operators.vector_loops import blocks, scratch
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# keys that are tested together
_TESTED = 16
# most elements, and as a multiple of a vector's: more take as many parts, of which the ranks cost
# more than a selection by bits
_FEW, _VECTORS = 32, 4
# fewest parts, and shortest row in elements of each part
_PARTS, _SHORTEST = 32, 3
# longest row whose keys are stored, which fit into L1, and longest row that is read twice
_STORED, _LONGEST = 8192, 1 << 17
# parts whose maxima stay in registers
_HELD = 128


def are_few(size: int, k: int, lanes: int) -> bool:
    """Whether few elements of rows are wanted; ``lanes`` are the FP32 numbers of a vector."""
    return k <= max(_FEW, _VECTORS * lanes) and _have_parts(size, k)


def fits_parts(size: int, k: int) -> bool:
    """Whether :class:`FewBest` is the faster selection."""
    return size <= _LONGEST and _have_parts(size, k)


def _have_parts(size: int, k: int) -> bool:
    return k > 1 and size > _SHORTEST * _parts_of(k)


def _parts_of(k: int) -> int:
    """The parts of a row: a power of two, at least twice ``k``."""
    return max(_PARTS, 1 << (2 * k - 1).bit_length())


class FewBest(Selection):
    """The ``k`` best elements of a row for which :func:`fits_parts` is true."""

    def __init__(
        self, key: Callable[[Any], Any], size: int, k: int, dtype: str, bits: int, lanes: int
    ) -> None:
        super().__init__(key, size, k, dtype, bits)
        self._ranks = are_few(size, k, lanes)

    def ordered(self) -> Any:
        """A buffer with the positions of the best elements in order, after the loops."""
        lowest, parts = scratch(1, self._dtype), _parts_of(self._k)
        stored: Any = scratch(self._size, self._dtype) if self._size <= _STORED else None
        self._find_peaks(stored, parts)
        lowest[0] = self._reached(parts)
        self._count[0] = tirx.const(0, "int32")
        found = scratch(1, "int32")
        tested: Any = scratch(_TESTED, self._dtype) if stored is None else None

        def block(first: Any, count: int) -> None:
            found[0] = tirx.const(0, "int32")
            if tested is not None:
                with T.serial(0, count) as place:
                    tested[place] = self._key(first + place)

            def key(place: Any) -> Any:
                return stored[first + place] if tested is None else tested[place]

            with T.serial(0, count) as place:
                found[0] = found[0] | tirx.Cast("int32", key(place) >= lowest[0])
            with T.If(found[0] != 0), T.Then():
                with T.serial(0, count) as place:
                    self._append(key(place), first + place, key(place) >= lowest[0])
                with T.If(self._count[0] > self._room), T.Then():
                    self._select()
                    # Later elements that equal the last one come after it. The highest key has
                    # none above.
                    last = self._threshold[0]
                    lowest[0] = last + tirx.Cast(self._dtype, last < ~self._number(0))

        blocks(self._size, _TESTED, block)
        if not self._ranks:
            return self._finished()
        with T.If(self._count[0] > parts), T.Then():
            self._select()
        return self._ranked(self._count[0], parts)

    def _find_peaks(self, stored: Any, parts: int) -> None:
        """The best key of each part becomes the collection; the keys of all elements are stored."""
        width = min(parts, _HELD)
        with T.serial(0, parts // width) as group:
            peaks = registers(width, self._dtype)
            with side_by_side(width) as lane:
                peaks[lane] = self._number(0)
            with T.serial(0, self._size // parts) as chunk:
                first = chunk * parts + group * width
                fresh = registers(width, self._dtype)
                with side_by_side(width) as lane:
                    fresh[lane] = self._key(first + lane)
                with side_by_side(width) as lane:
                    peaks[lane] = tirx.max(peaks[lane], fresh[lane])
                if stored is not None:
                    with side_by_side(width) as lane:
                        stored[first + lane] = fresh[lane]
            with side_by_side(width) as lane:
                self._keys[group * width + lane] = peaks[lane]
        # the last elements are in no part: the others reach the key without them
        if stored is not None:
            with T.serial(self._size // parts * parts, self._size) as place:
                stored[place] = self._key(place)

    def _reached(self, parts: int) -> Any:
        """A key that at least ``k`` elements reach."""
        if not self._ranks:
            self._count[0] = tirx.const(parts, "int32")
            self._find_threshold()
            return self._threshold[0]
        keys, ranks = self._keys, registers(parts, "int32")
        peaks = registers(parts, self._dtype)
        with side_by_side(parts) as lane:
            peaks[lane] = keys[lane]
        with side_by_side(parts) as lane:
            ranks[lane] = tirx.const(0, "int32")
        counted = min(parts, COUNTED)
        for first in range(0, parts, counted):
            with T.serial(0, parts) as other, side_by_side(counted) as lane:
                place, its = first + lane, keys[other]
                ranks[place] = ranks[place] + tirx.Cast("int32", its > peaks[place])
        with side_by_side(parts) as lane:
            peaks[lane] = tirx.Select(ranks[lane] < self._k, peaks[lane], ~self._number(0))
        width = parts
        while width > 1:
            width //= 2
            with side_by_side(width) as lane:
                peaks[lane] = tirx.min(peaks[lane], peaks[width + lane])
        return peaks[0]
