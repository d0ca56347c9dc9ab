"""The best elements of a row, by their keys: selection and a stable sort without branches.

A key is a number without sign in the order of the elements; the largest one is the best. How long a
row takes hardly depends on its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.operators.registers import LANES
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import blocks, scratch
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# keys that are counted together
_BLOCK = 64
# keys of the rest of a row that are tested together, and appended if one of them is wanted
_TESTED = 16
# smallest collection of which the best are selected, and its size as a multiple of theirs
_ROOM, _TIMES = 256, 4
# longest row that is sorted by ranks, and entries whose ranks are counted in registers
_RANKED, COUNTED = 128, 64
_DIGIT = 8


class Selection:
    """The ``k`` best elements of a row of ``size`` elements.

    ``key`` gives the key at a position, of type ``dtype`` with ``bits`` significant bits.
    """

    def __init__(self, key: Callable[[Any], Any], size: int, k: int, dtype: str, bits: int) -> None:
        self._key, self._size, self._k = key, size, k
        self._dtype, self._bits = dtype, bits
        self._room = min(size, max(_TIMES * k, _ROOM))
        self._keys = scratch(self._room + 2 * _BLOCK, dtype)
        self._places = scratch(self._room + 2 * _BLOCK, "int32")
        self._count, self._state = scratch(1, "int32"), scratch(1, "int32")
        self._found, self._bit = scratch(1, "int32"), scratch(1, "int32")
        self._threshold, self._higher = scratch(1, dtype), scratch(1, dtype)

    def ordered(self) -> Any:
        """A buffer with the positions of the best elements in order, after the loops."""
        with T.serial(0, self._room) as place:
            self._keys[place] = self._key(place)
        with T.serial(0, self._room) as place:
            self._places[place] = place
        if self._size <= _RANKED:
            # ranking all costs less than a selection before the ranks
            return self._ranked(self._size, self._size)
        self._count[0] = _int(self._room)
        if self._room < self._size:
            self._select()
            self._collect()
        return self._finished()

    def _finished(self) -> Any:
        """The positions of the best of the collection, in order."""
        if self._size > self._k:
            with T.If(self._count[0] > self._k), T.Then():
                self._select()
        return self._ranked(self._k, self._k) if self._k <= _RANKED else self._sorted()

    def _collect(self) -> None:
        """Go through the rest of the row; select whenever the collection is full."""
        keys, highest = scratch(_TESTED, self._dtype), scratch(1, self._dtype)

        def block(first: Any, count: int) -> None:
            start = self._room + first
            highest[0] = self._number(0)
            with T.serial(0, count) as place:
                keys[place] = self._key(start + place)
            with T.serial(0, count) as place:
                highest[0] = tirx.max(highest[0], keys[place])
            with T.If(highest[0] > self._threshold[0]), T.Then():
                with T.serial(0, count) as place:
                    self._append(keys[place], start + place, keys[place] > self._threshold[0])
                with T.If(self._count[0] > self._room), T.Then():
                    self._select()

        blocks(self._size - self._room, _TESTED, block)

    def _append(self, key: Any, place: Any, wanted: Any) -> None:
        """Write an entry to the end, which moves on if the entry is ``wanted``."""
        self._keys[self._count[0]] = key
        self._places[self._count[0]] = place
        self._count[0] = self._count[0] + tirx.Cast("int32", wanted)

    def _select(self) -> None:
        """Keep the best, in the order of their positions, and the key of the last one of them."""
        count, threshold, ties, found = self._count, self._threshold, self._state, self._found
        self._find_threshold()
        ties[0] = self._k - self._counted(lambda key: key > threshold[0])
        found[0] = count[0]
        count[0] = _int(0)
        with T.serial(0, found[0]) as place:
            key = self._keys[place]
            tie = tirx.all(key == threshold[0], ties[0] > 0)
            self._append(key, self._places[place], tirx.any(key > threshold[0], tie))
            ties[0] = ties[0] - tirx.Cast("int32", tie)

    def _find_threshold(self) -> None:
        """The ``k``-th largest of the collected keys, or one below it that no other key exceeds."""
        count, threshold = self._count, self._threshold
        higher, found, bit = self._higher, self._found, self._bit
        with T.serial(0, _BLOCK) as place:
            self._keys[count[0] + place] = self._number(0)
        threshold[0] = self._number(0)
        bit[0] = _int(self._bits)
        with T.While(bit[0] > 0):
            bit[0] = bit[0] - 1
            power = tirx.shift_left(self._number(1), tirx.Cast(self._dtype, bit[0]))
            higher[0] = tirx.bitwise_or(threshold[0], power)
            found[0] = self._counted(lambda key: key >= higher[0])
            threshold[0] = tirx.Select(found[0] >= self._k, higher[0], threshold[0])
            with T.If(found[0] == self._k), T.Then():
                # all of these and no others: further bits change nothing
                threshold[0] = threshold[0] - self._number(1)
                bit[0] = _int(0)

    def _counted(self, test: Callable[[Any], Any]) -> Any:
        """How many keys pass a test that zero fails."""
        parts, width = registers(_BLOCK, "int32"), _BLOCK
        with side_by_side(width) as lane:
            parts[lane] = _int(0)
        blocks_ = (self._count[0] + _BLOCK - 1) // _BLOCK
        with T.serial(0, blocks_) as block, side_by_side(width) as lane:
            passes = test(self._keys[block * _BLOCK + lane])
            parts[lane] = parts[lane] + tirx.Cast("int32", passes)
        while width > 1:
            width //= 2
            with side_by_side(width) as lane:
                parts[lane] = parts[lane] + parts[width + lane]
        return parts[0]

    def _ranked(self, entries: Any, most: int) -> Any:
        """Each entry's rank is how many are better, or equal and before it; ``most`` entries."""
        width = 1 << (most - 1).bit_length()
        lanes = min(width, LANES)
        order, kept = scratch(width, "int32"), scratch(most, "int32")
        for first in range(0, width, COUNTED):
            self._rank(entries, range(first, min(first + COUNTED, width), lanes), width, order)
        with T.serial(0, entries) as place:
            kept[order[place]] = self._places[place]
        return kept

    def _rank(self, entries: Any, starts: range, width: int, order: Any) -> None:
        """Ranks of the entries of a few vectors, which ``order`` gets.

        Only within a vector, the place of an equal entry is compared.
        """
        lanes = starts.step
        count = lanes * len(starts)
        ranks = registers(count, "int32")
        with side_by_side(count) as lane:
            ranks[lane] = _int(0)

        def compare(other: Any, begin: int) -> None:
            its = self._keys[other]
            for slot, start in enumerate(starts):
                with side_by_side(lanes) as lane:
                    mine, place = self._keys[start + lane], slot * lanes + lane
                    ahead = its >= mine if begin < start else its > mine
                    if begin == start:
                        ahead = tirx.any(ahead, tirx.all(its == mine, other < start + lane))
                    ranks[place] = ranks[place] + tirx.Cast("int32", ahead)

        for begin in range(0, width, lanes):
            with T.serial(0, tirx.max(tirx.min(entries - begin, lanes), 0)) as number:
                compare(begin + number, begin)
        with side_by_side(count) as lane:
            order[starts[0] + lane] = ranks[lane]

    def _sorted(self) -> Any:
        """A radix sort from the lowest digit on; equal entries keep their order."""
        counts, total = scratch(1 << _DIGIT, "int32"), self._state
        source = self._keys, self._places
        target = scratch(self._k, self._dtype), scratch(self._k, "int32")
        for shift in range(0, self._bits, _DIGIT):

            def digit(place: Any, keys: Any = source[0], shift: int = shift) -> Any:
                low = tirx.shift_right(keys[place], self._number(shift))
                # the best first
                return (1 << _DIGIT) - 1 - tirx.Cast("int32", low & self._number(255))

            with T.serial(0, 1 << _DIGIT) as value:
                counts[value] = _int(0)
            with T.serial(0, self._k) as place:
                counts[digit(place)] = counts[digit(place)] + 1
            total[0] = _int(0)
            with T.serial(0, 1 << _DIGIT) as value:
                total[0] = total[0] + counts[value]
                counts[value] = total[0] - counts[value]
            with T.serial(0, self._k) as place:
                for old, new in zip(source, target, strict=True):
                    new[counts[digit(place)]] = old[place]
                counts[digit(place)] = counts[digit(place)] + 1
            source, target = target, source
        return source[1]

    def _number(self, value: int) -> Any:
        return tirx.const(value, self._dtype)


def _int(value: int) -> Any:
    return tirx.const(value, "int32")
