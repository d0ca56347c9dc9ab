"""Attention of heads, softmax(scale * Q K' + biases) V, as one function without stored scores.

Masks may replace scores before the softmax, and weights after it.

A task packs the keys and values of one head into panels of one vector. It then takes a few rows of
queries at a time. Their scores with all keys stay in the cache. A register tile writes them, three
passes normalize them, and a second register tile multiplies them by the values. The sums of the
exponentials divide the result, not the weights. A second maximum is not needed: all scores of a row
exist before the first exponential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from tvmconv.operators import math
from tvmconv.operators.attention_form import Attention, AttentionTile, Operand, Step
from tvmconv.operators.attention_panels import Neighbors, pack_panels
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.operators.row_vectors import RowVectors, side_by_side
from tvmconv.operators.vector_loops import pieces, place_of, ramp, scratch, shared, spread
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor


def attention(form: Attention, tile: AttentionTile, *tensors: Tensor, transposed: str) -> Tensor:
    """The result of an attention, FP32.

    ``tensors`` have one axis: FP32 operands, biases and factors, and masks of booleans.
    ``transposed`` is the annotation of loops that copy squares in registers.
    """

    def write(ins: Any, outs: Any) -> Any:
        sources = [T.buffer_proxy(source) for source in ins]
        loops = _Heads(form, tile, sources, T.buffer_proxy(outs[0]), transposed)
        with IRBuilder() as builder:
            with shared(form.heads * tile.parts) as task:
                loops.write(task // tile.parts, task % tile.parts)
            return builder.get()

    result: Any = te.extern([form.shape], list(tensors), write, dtype=["float32"], name="attention")
    return result


class _Heads:
    """The loops of one task."""

    def __init__(
        self,
        form: Attention,
        tile: AttentionTile,
        sources: list[Any],
        target: Any,
        transposed: str,
    ) -> None:
        self._form, self._tile, self._sources, self._target = form, tile, sources, target
        self._transposed = transposed
        self._lines = -(-form.sizes[2] // tile.lanes)

    def write(self, head: Any, part: Any) -> None:
        """Write one part of the rows of a head."""
        form, tile = self._form, self._tile
        rows, depth, columns, width = form.sizes
        lanes = tile.lanes
        keys = scratch(self._lines * lanes * depth, "float32")
        values = scratch(-(-width // lanes) * lanes * columns, "float32")
        self._queries = scratch(tile.rows * depth, "float32")
        # an odd number of vectors: rows that are a power of two apart would share sets of L1
        self._stride = (self._lines | 1) * lanes
        self._scores = scratch(tile.rows * self._stride, "float32")
        self._factors = scratch(tile.rows, "float32")
        self._last = scratch(lanes, "float32")
        self._pack(form.key, head, keys, (depth, columns))
        self._pack(form.value, head, values, (columns, width))

        def block(first: Any, count: int) -> None:
            self._copy_queries(head, first, count)
            self._multiply_keys(keys, count)
            with T.serial(0, count) as row:
                self._normalize(head, first + row, row)
            self._multiply_values(values, head, first, count)

        whole, rest = divmod(rows, tile.rows)
        share = -(-whole // tile.parts)
        if whole:
            count = tirx.max(0, tirx.min(share, whole - part * share)) if tile.parts > 1 else whole
            with T.serial(0, count) as number:
                block((part * share + number) * tile.rows, tile.rows)
        if rest and tile.parts > 1:
            with T.If(part == tile.parts - 1), T.Then():
                block(whole * tile.rows, rest)
        elif rest:
            block(whole * tile.rows, rest)

    def _pack(self, operand: Operand, head: Any, panels: Any, sizes: tuple[int, int]) -> None:
        """Copy a matrix of steps by columns into panels of one vector of columns."""
        source = self._sources[operand.number]

        def value(step: Any, column: Any) -> Any:
            place = operand.place(head, step, column)
            return source[place]

        pack_panels(value, panels, sizes, self._tile.lanes, operand.neighbors, self._transposed)

    def _copy_queries(self, head: Any, first: Any, count: int) -> None:
        """Copy some rows of the queries, and scale them."""
        operand, depth = self._form.query, self._form.sizes[1]
        source, factor = self._sources[operand.number], math.constant(self._form.scale)
        target = self._queries

        def value(row: Any, step: Any) -> Any:
            return source[operand.place(head, first + row, step)]

        if operand.neighbors != Neighbors.COLUMNS:
            with T.grid(count, depth) as (row, step):
                target[row * depth + step] = value(row, step) * factor
            return
        with T.serial(0, count) as row:

            def store(start: Any, lanes: int) -> None:
                scaled = value(row, ramp(start, lanes)) * spread(factor, lanes)
                target[ramp(row * depth + start, lanes)] = scaled

            pieces(depth, self._tile.lanes, store)

    def _multiply_keys(self, keys: Any, count: int) -> None:
        """Write the scores of some rows."""
        depth, stride, lanes = self._form.sizes[1], self._stride, self._tile.lanes

        def store(row: int, vector: Any, value: Any) -> None:
            self._scores[ramp(row * stride + vector * lanes, lanes)] = value

        sizes = (count, depth, self._lines)
        self._tiles(self._queries, depth, keys, sizes, self._tile.score_vectors, store)

    def _multiply_values(self, values: Any, head: Any, first: Any, count: int) -> None:
        """Write some rows of the result."""
        form, lanes, target = self._form, self._tile.lanes, self._target
        _, _, columns, width = form.sizes
        lines = -(-width // lanes)
        batch = place_of(head, form.batch)

        def place(row: int, column: Any) -> tuple[Any, ...]:
            whole = [*batch, first + row, column]
            return tuple(whole[axis] for axis in form.order)

        def store(row: int, vector: Any, value: Any) -> None:
            scaled = value * spread(self._factors[row], lanes)
            if isinstance(vector, int) and (vector + 1) * lanes > width:
                self._last[ramp(0, lanes)] = scaled
                with T.serial(0, width % lanes) as lane:
                    target[place(row, vector * lanes + lane)] = self._last[lane]
            else:
                target[place(row, ramp(vector * lanes, lanes))] = scaled

        # the last vector may be partial: its tile is separate code
        tile = min(self._tile.value_vectors, lines)
        sizes, partial = (count, columns, lines), width % lanes > 0 and lines % tile == 0
        self._tiles(self._scores, self._stride, values, sizes, tile, store, apart=partial)

    def _tiles(
        self,
        left: Any,
        distance: int,
        panels: Any,
        sizes: tuple[int, int, int],
        vectors: int,
        store: Callable[[int, Any, Any], None],
        apart: bool = False,
    ) -> None:
        """Register tiles that cover all panels; ``sizes`` are rows, steps and panels.

        The last tile has its number at build time if it is narrower, or ``apart`` from others.
        """
        count, steps, lines = sizes
        lanes = self._tile.lanes
        whole, rest = divmod(lines, vectors)

        def write(first: Any, across: int) -> None:
            sums = T.decl_buffer([count * across * lanes], "float32", scope="local")
            places = [
                (row, vector, [ramp((row * across + vector) * lanes, lanes)])
                for row in range(count)
                for vector in range(across)
            ]
            zero = spread(math.constant(0.0), lanes)
            for _, _, place in places:
                T.buffer_store(sums, zero, place)
            with T.serial(0, steps) as step:
                for row, vector, place in places:
                    factor = spread(left[row * distance + step], lanes)
                    column = panels[ramp(((first + vector) * steps + step) * lanes, lanes)]
                    T.buffer_store(sums, tirx.BufferLoad(sums, place) + column * factor, place)
            for row, vector, place in places:
                store(row, first + vector, tirx.BufferLoad(sums, place))

        if apart and not rest:
            whole, rest = whole - 1, vectors
        if whole:
            with T.serial(0, whole) as number:
                write(number * vectors, vectors)
        if rest:
            write(whole * vectors, rest)

    def _normalize(self, head: Any, row: Any, line: Any) -> None:
        """Replace a row of scores by exponentials, and store one over their sum."""
        scores, start, lanes = self._scores, line * self._stride, self._tile.lanes
        if self._form.before:
            self._apply(self._form.before, start, head, row)
        size = self._lines * lanes
        if rest := self._form.sizes[2] % lanes:
            with side_by_side(lanes) as lane:
                place = start + (size - lanes) + lane
                kept = tirx.Select(lane < rest, scores[place], math.constant(-inf))
                scores[place] = kept
        vectors = RowVectors(size, lanes)
        peak = vectors.reduced(math.constant(-inf), lambda place: scores[start + place], tirx.max)

        def exponential(place: Any) -> Any:
            scores[start + place] = exp_of_negative(scores[start + place] - peak)
            return scores[start + place]

        total = vectors.reduced(math.constant(0.0), exponential, lambda a, b: a + b)
        self._factors[line] = math.constant(1.0) / total
        if self._form.after:
            self._apply(self._form.after, start, head, row, self._factors[line])
            self._factors[line] = math.constant(1.0)

    def _apply(
        self, steps: Sequence[Step], start: Any, head: Any, row: Any, factor: Any = None
    ) -> None:
        """Replace a row of scores or weights, after a multiplication by a factor."""
        scores, whole = self._scores, head * self._form.sizes[0] + row

        def store(first: Any, lanes: int) -> None:
            place = ramp(start + first, lanes)
            value = scores[place]
            if factor is not None:
                value = value * spread(factor, lanes)
            for step in steps:
                value = self._after(step, value, whole, first, lanes)
            scores[place] = value

        pieces(self._form.sizes[2], self._tile.lanes, store, overlap=False)

    def _after(self, step: Step, value: Any, row: Any, first: Any, lanes: int) -> Any:
        """A vector after a step."""
        other = spread(math.constant(step.value), lanes)
        if step.kind == "fill_nan":
            # false for NaN only; TVM folds the comparison of a value with itself
            return tirx.Select(value >= spread(math.constant(-inf), lanes), value, other)
        tensor = other
        if step.tensor is not None:
            begin, distance = step.place(row)
            source = self._sources[step.number]
            tensor = (
                source[ramp(begin + first, lanes)] if distance else spread(source[begin], lanes)
            )
        if step.kind == "add":
            return value + tensor
        if step.kind == "multiply":
            return value * tensor
        kept, filled = (value, other) if step.kind == "keep" else (other, value)
        return tirx.Select(tensor, kept, filled)
