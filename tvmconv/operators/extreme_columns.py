"""Positions of the largest or smallest elements of columns: neighboring columns are vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvmconv.core.stored_types import numpy_type
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import pieces, ramp, tasks, vector_type
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

_PLACE = "int32"
_PLACE_BYTES = 4
# vectors whose comparisons do not wait for each other
_VECTORS = 4
# rows of a chain that outweigh the combination of chains
_FEWEST = 8


def column_lanes(dtype: str, vector_bytes: int) -> int:
    """Return the columns of a vector of elements, or of positions if these are larger."""
    return vector_bytes // max(numpy_type(dtype).itemsize, _PLACE_BYTES)


def extreme_columns(data: Tensor, columns: int, largest: bool, vector_bytes: int) -> Tensor:
    """Index of the first largest or smallest element of each column: ``(outer, columns)``.

    ``data`` is ``(outer, size * columns)``: at least two rows of ``columns``, and at least
    :func:`column_lanes` elements. NaN is never found; a column of nothing else gives 0. Positions
    are computed in 32 bits.
    """
    outer, count = (int(d) for d in data.shape)
    size, dtype = count // columns, str(data.dtype)
    lanes = column_lanes(dtype, vector_bytes)

    def write(ins: Any, outs: Any) -> Any:
        group = _Group(ins[0], outs[0], (size, columns), lanes, largest)

        def unit(number: Any) -> None:
            group.write(number // group.count, number % group.count)

        return tasks(outer * group.count, size * group.width, lambda: None, unit)

    result: Any = te.extern(
        [(outer, columns)], [data], write, dtype=["int64"], name="extreme_columns"
    )
    return result


class _Group:
    """The loops of neighboring columns.

    Rows that are shorter than a vector are read together with the rows after them. The last rows
    are the end of a vector that begins earlier.
    """

    def __init__(
        self, source: Any, target: Any, shape: tuple[int, int], lanes: int, largest: bool
    ) -> None:
        self._source, self._target = T.buffer_proxy(source), T.buffer_proxy(target)
        self._size, self._columns = shape
        self._lanes, self._largest = lanes, largest
        self._vectors = _vectors_of(self._columns, lanes)
        self._chains = max(1, min(_VECTORS // self._vectors, self._size // _FEWEST))
        self.width = self._vectors * lanes
        self.count = -(-self._columns // self.width)
        self._stored = str(source.dtype)
        small = numpy_type(self._stored).itemsize < _PLACE_BYTES
        self._dtype = _PLACE if small else self._stored

    def write(self, outer: Any, number: Any) -> None:
        """Find the positions of one group."""
        # the last group overlaps the one before it
        first = tirx.min(number * self.width, self._columns - self.width) if self.count > 1 else 0
        parts = [[_Chain(self) for _ in range(self._chains)] for _ in range(self._vectors)]
        # rows whose vectors would end after the last element
        last = -(-self._lanes // self._columns) - 1
        steps, rest = divmod(self._size - last, self._chains)

        def row(place: Any, chain: int) -> None:
            for vector, chains in enumerate(parts):
                begin = place * self._columns + first + vector * self._lanes
                chains[chain].add(place, partial(self._element, outer, begin))

        with T.serial(0, steps) as step:
            for chain in range(self._chains):
                row(step * self._chains + chain, chain)
        for chain in range(rest):
            row(steps * self._chains + chain, chain)
        for place in range(self._size - last, self._size):
            self._last_row(outer, place, parts[0][0])
        for vector, (found, *others) in enumerate(parts):
            for other in others:
                found.join(other)
            self._store(found, outer, first + vector * self._lanes)

    def _element(self, outer: Any, begin: Any, lane: Any) -> Any:
        return self._source[outer, begin + lane]

    def _last_row(self, outer: Any, place: int, chain: _Chain) -> None:
        lanes, first = self._lanes, self._size * self._columns - self._lanes
        shift = place * self._columns - first
        vector = self._source[outer, ramp(first, lanes)]
        picked = [tirx.const(min(lane + shift, lanes - 1), "int32") for lane in range(lanes)]
        row = registers(lanes, self._stored)
        row[ramp(0, lanes)] = tirx.Shuffle([vector], picked)
        chain.add(place, lambda lane: row[lane])

    def _store(self, chain: _Chain, outer: Any, first: Any) -> None:
        def store(begin: Any, width: int) -> None:
            places = tirx.Cast(vector_type("int64", width), chain.places[ramp(begin, width)])
            self._target[outer, ramp(first + begin, width)] = places

        pieces(min(self._columns, self._lanes), self._lanes, store)

    def worst(self) -> Any:
        """A value that no element is worse than."""
        if self._dtype.startswith("float"):
            return tirx.const(float("-inf" if self._largest else "inf"), self._dtype)
        limit = tirx.min_value if self._largest else tirx.max_value
        return limit(self._dtype)

    def ahead(self, left: Any, right: Any) -> Any:
        """Where the left value is better; never where it is NaN."""
        return left > right if self._largest else left < right

    @property
    def lanes(self) -> int:
        """Columns of a vector."""
        return self._lanes

    @property
    def dtype(self) -> str:
        """The type in which elements are compared."""
        return self._dtype


class _Chain:
    """The best elements so far of a vector of columns, and their rows."""

    def __init__(self, group: _Group) -> None:
        self._group, self._lanes = group, group.lanes
        self._best = registers(self._lanes, group.dtype)
        self.places = registers(self._lanes, _PLACE)
        with side_by_side(self._lanes) as lane:
            self._best[lane] = group.worst()
            self.places[lane] = tirx.const(0, _PLACE)

    def add(self, row: Any, value: Callable[[Any], Any]) -> None:
        """Compare the elements of a row: ``value`` at each lane."""
        # a statement of its own: TVM compares an expression with a cast in 64 bits
        elements = registers(self._lanes, self._group.dtype)
        with side_by_side(self._lanes) as lane:
            elements[lane] = tirx.Cast(self._group.dtype, value(lane))
        with side_by_side(self._lanes) as lane:
            own, best = elements[lane], self._best[lane]
            ahead = self._group.ahead(own, best)
            self.places[lane] = tirx.Select(ahead, tirx.Cast(_PLACE, row), self.places[lane])
            self._best[lane] = tirx.Select(ahead, own, best)

    def join(self, other: _Chain) -> None:
        """Take over what another chain has found, of equal elements the first."""
        with side_by_side(self._lanes) as lane:
            best, others = self._best[lane], other._best[lane]
            place, candidate = self.places[lane], other.places[lane]
            ahead = self._group.ahead(others, best)
            earlier = tirx.Select(others == best, tirx.min(place, candidate), place)
            self.places[lane] = tirx.Select(ahead, candidate, earlier)
            self._best[lane] = tirx.Select(ahead, others, best)


def _vectors_of(columns: int, lanes: int) -> int:
    """Return the vectors of a group: as many as cover the columns without more vectors in all."""
    counts = [count for count in (_VECTORS, 2, 1) if count == 1 or count * lanes <= columns]
    return min(counts, key=lambda count: -(-columns // (count * lanes)) * count)
