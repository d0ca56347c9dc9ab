"""The few best elements of several rows at once: each lane of a vector keeps its own row's best.

An element is inserted without branches: in each rank, a vector gets the element, the element of the
rank above, or keeps its own. Neighboring columns are lanes as they are; short rows are transposed a
vector of rows at a time.
"""

from __future__ import annotations

from typing import Any

from tvmconv.operators.entries import is_wide, key_of
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import scratch, shared, tasks
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T

# Ranks that stay in registers for columns of any length, and elements times ranks beyond them.
# Other forms take longer for each element, but less for each rank.
_RANKS, _STEPS = 8, 4096
# elements times ranks of short rows, and elements of them, which are copied one by one
_ROW_STEPS, _SHORT = 2048, 512
# most ranks that are inserted
_MOST = 16
# columns that one thread takes at once
_COLUMNS = 256


def lanes_of(dtype: str, lanes: int) -> int:
    """Elements of a vector of keys; ``lanes`` are its FP32 numbers."""
    return max(lanes // 2, 1) if is_wide(dtype) else lanes


def fits_columns(size: int, columns: int, k: int, dtype: str, lanes: int) -> bool:
    """Whether columns are faster as they are than transposed to rows."""
    kept = k <= _RANKS or (k <= _MOST and k * size <= _STEPS)
    return kept and columns >= lanes_of(dtype, lanes) > 1


def fits_rows(size: int, rows: int, k: int, dtype: str, lanes: int) -> bool:
    """Whether several rows at once are faster than each by itself.

    Rows of 32-bit keys are not: their entries are single numbers.
    """
    short = k <= _MOST and k * size <= _ROW_STEPS and size <= _SHORT
    return is_wide(dtype) and k > 1 and short and rows >= lanes_of(dtype, lanes) > 1


class _Lanes:
    """The best elements of each lane."""

    def __init__(self, k: int, lanes: int, dtype: str, largest: bool) -> None:
        self._k, self._lanes, self._dtype, self._largest = k, lanes, dtype, largest
        kind = "uint64" if is_wide(dtype) else "uint32"
        self._keys = [registers(lanes, kind) for _ in range(k)]
        self._places = [registers(lanes, "int32") for _ in range(k)]
        self._new = registers(lanes, kind)
        for keys, places in zip(self._keys, self._places, strict=True):
            with side_by_side(lanes) as lane:
                keys[lane] = tirx.const(0, kind)
            with side_by_side(lanes) as lane:
                places[lane] = tirx.const(-1, "int32")

    def sweep(self, size: int, element: Any) -> None:
        """Insert all elements: ``element`` takes the position and the lane."""

        def insert(position: Any, *, fills: bool) -> None:
            with side_by_side(self._lanes) as lane:
                self._new[lane] = key_of(element(position, lane), self._dtype, self._largest)
            # the last rank first: each one looks at the rank above
            for rank in range(self._k - 1, -1, -1):
                self._insert(rank, position, fills)

        with T.serial(0, self._k) as position:
            insert(position, fills=True)
        if size > self._k:
            with T.serial(self._k, size) as position:
                insert(position, fills=False)

    def _insert(self, rank: int, position: Any, fills: bool) -> None:
        def passes(number: int, lane: Any) -> Any:
            """Whether the new element comes before the one of a rank, which may be empty."""
            better = self._new[lane] > self._keys[number][lane]
            return tirx.any(better, self._places[number][lane] < 0) if fills else better

        keys, places = self._keys[rank], self._places[rank]
        with side_by_side(self._lanes) as lane:
            place = tirx.Cast("int32", position)
            if rank:
                place = tirx.Select(passes(rank - 1, lane), self._places[rank - 1][lane], place)
            places[lane] = tirx.Select(passes(rank, lane), place, places[lane])
        with side_by_side(self._lanes) as lane:
            mine = self._new[lane]
            if rank:
                mine = tirx.min(mine, self._keys[rank - 1][lane])
            keys[lane] = tirx.max(keys[lane], mine)

    def positions(self) -> Any:
        """A buffer of the positions, by rank and lane."""
        found = scratch(self._k * self._lanes, "int32")
        for rank, places in enumerate(self._places):
            with side_by_side(self._lanes) as lane:
                found[rank * self._lanes + lane] = places[lane]
        return found


def best_of_columns(
    data: Any, k: int, largest: bool, index_type: str = "int64", lanes: int = 16
) -> list[Any]:
    """As :func:`tvmconv.operators.sort.top_k` along the second axis of ``(outer, size, columns)``.

    There are at least as many columns as a vector has lanes: :func:`fits_columns`.
    """
    outer, size, columns = (int(extent) for extent in data.shape)
    dtype = str(data.dtype)
    width = lanes_of(dtype, lanes)
    # The last vector ends with the columns, and overlaps the one before it: one thread takes both.
    whole, vectors = columns // width, -(-columns // width)
    chunk = min(whole, _COLUMNS // width)
    parts = -(-whole // chunk)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, values, indices = (T.buffer_proxy(b) for b in (ins[0], *outs))
            with shared(outer * parts) as task:
                row, part = task // parts, task % parts
                rest = vectors - part * chunk
                with T.serial(0, tirx.Select(part == parts - 1, rest, chunk)) as number:
                    first = tirx.min((part * chunk + number) * width, columns - width)
                    best = _Lanes(k, width, dtype, largest)
                    best.sweep(size, lambda position, lane: source[row, position, first + lane])
                    found = best.positions()
                    with T.serial(0, k) as rank:
                        with T.serial(0, width) as lane:
                            place = found[rank * width + lane]
                            values[row, rank, first + lane] = source[row, place, first + lane]
                        with side_by_side(width) as lane:
                            place = found[rank * width + lane]
                            indices[row, rank, first + lane] = tirx.Cast(index_type, place)
            return builder.get()

    shape, types = [outer, k, columns], [dtype, index_type]
    return te.extern([shape, shape], [data], write, dtype=types, name="top_k_columns")


def best_of_short_rows(
    data: Any, k: int, largest: bool, index_type: str = "int64", lanes: int = 16
) -> list[Any]:
    """As :func:`tvmconv.operators.sort.top_k` of rows ``(rows, size)``: :func:`fits_rows`."""
    rows, size = (int(extent) for extent in data.shape)
    dtype = str(data.dtype)
    width = lanes_of(dtype, lanes)

    def write(ins: Any, outs: Any) -> Any:
        source, values, indices = (T.buffer_proxy(b) for b in (ins[0], *outs))
        turned: list[Any] = []

        def group(number: Any) -> None:
            first = number * width
            with T.serial(0, size) as position:
                for lane in range(width):
                    # lanes without a row repeat the last one
                    row = tirx.min(first + lane, rows - 1)
                    turned[0][position * width + lane] = source[row, position]
            best = _Lanes(k, width, dtype, largest)
            best.sweep(size, lambda position, lane: turned[0][position * width + lane])
            found = best.positions()
            with T.serial(0, tirx.min(width, rows - first)) as lane, T.serial(0, k) as rank:
                place = found[rank * width + lane]
                values[first + lane, rank] = source[first + lane, place]
                indices[first + lane, rank] = tirx.Cast(index_type, place)

        def allocate() -> None:
            turned.append(scratch(size * width, dtype))

        return tasks(-(-rows // width), width * size, allocate, group)

    shape, types = [rows, k], [dtype, index_type]
    return te.extern([shape, shape], [data], write, dtype=types, name="top_k_short_rows")
