"""The steps of a recurrent layer as one function, with the loop over time inside.

The product of the input and its weights was computed before, for all steps. A step multiplies the
hidden state by the recurrent weights, in register tiles, and stores the sums of all gates. A second
pass over the units adds the input's part and computes activations and states by vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.operators.recurrent_cells import Cells, Memory
from tvmconv.operators.recurrent_form import RecurrentForm
from tvmconv.operators.vector_loops import ramp, scratch, spread
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Expr, Tensor

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RecurrentTile:
    """Columns of the recurrent weights that one product computes, and its register tile.

    The columns are ``count`` rows of ONNX's R from ``first`` on. The tile has ``rows`` sequences
    and ``vectors`` vectors of ``lanes`` columns.
    """

    first: int
    count: int
    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def blocks(self) -> int:
        """Tiles; the last one overlaps the tile before it if the width does not divide."""
        return -(-self.count // self.width)

    def start(self, block: Any) -> Any:
        """The first column of a tile, counted from ``first``."""
        last = self.count - self.width
        if isinstance(block, int):
            return min(block * self.width, last)
        return tirx.min(block * self.width, last) if self.count % self.width else block * self.width


def pack_recurrent_weight(weight: FloatArray, tile: RecurrentTile) -> FloatArray:
    """ONNX's R to ``(directions, tiles, hidden, width)``: a step of a tile reads one row."""
    starts = [tile.first + tile.start(block) for block in range(tile.blocks)]
    parts = [weight[:, start : start + tile.width].transpose(0, 2, 1) for start in starts]
    return np.ascontiguousarray(np.stack(parts, axis=1), np.float32)


def packed_at_run_time(weight: Tensor, tile: RecurrentTile) -> Tensor:
    """:func:`pack_recurrent_weight` of weights that are computed at run time."""
    directions, _, hidden = (int(size) for size in weight.shape)

    def element(d: Expr, block: Expr, k: Expr, column: Expr) -> Expr:
        return weight[d, tile.first + tile.start(block) + column, k]

    shape = (directions, tile.blocks, hidden, tile.width)
    return te.compute(shape, element, name="packed_weight")


def recurrence(
    form: RecurrentForm,
    tiles: Sequence[RecurrentTile],
    product: Tensor,
    *operands: Tensor,
    lanes: int,
    groups: int = 1,
    parallel: bool = False,
) -> list[Tensor]:
    """All steps of a recurrent layer.

    ``product`` is ``(steps, batch, directions * gates * hidden)``, or batch first, with all biases
    that are added to it. ``operands`` are the packed weights of the ``tiles``, then the operands
    that the form names. If ``parallel``, threads share the directions and ``groups`` of sequences,
    a divisor of the batch.
    """
    steps, batch = (int(size) for size in product.shape[:2])
    if form.batch_first:
        steps, batch = batch, steps

    def write(ins: Any, outs: Any) -> Any:
        weights = ins[1 : 1 + len(tiles)]
        others = dict(zip(form.operands, ins[1 + len(tiles) :], strict=True))
        results = dict(zip(form.results, outs, strict=True))
        size = batch // groups
        with IRBuilder() as builder:
            tasks = form.directions * groups
            with (T.parallel if parallel and tasks > 1 else T.serial)(0, tasks) as task:
                memory = _memory(form, size)
                cells = Cells(form, ins[0], others, results, memory, steps, lanes)
                loops = _Steps(form, cells, list(zip(tiles, weights, strict=True)), size, steps)
                loops.write(task // groups, task % groups * size)
            return builder.get()

    shapes = form.result_shapes(steps, batch)
    results: Any = te.extern(
        shapes, [product, *operands], write, dtype=["float32"] * len(shapes), name=form.cell
    )
    return list(results) if isinstance(results, list | tuple) else [results]


def _memory(form: RecurrentForm, size: int) -> Memory:
    """The states and sums of one thread."""
    units = size * form.hidden
    cell = scratch(units, "float32") if form.cell == "lstm" else None
    resets = form.cell == "gru" and not form.reset_after
    reset = scratch(units, "float32") if resets else None
    gates = scratch(units * form.gates, "float32")
    return Memory(scratch(units, "float32"), gates, cell, reset)


class _Steps:
    """The loops of one direction and group of sequences."""

    def __init__(
        self,
        form: RecurrentForm,
        cells: Cells,
        products: Sequence[tuple[RecurrentTile, Any]],
        size: int,
        steps: int,
    ) -> None:
        self._form, self._cells, self._products = form, cells, products
        self._size, self._steps = size, steps

    def write(self, direction: Any, first: Any) -> None:
        """Write all steps of the sequences from ``first`` on."""
        if len(set(self._form.activations)) == 1:
            self._write(direction, first, 0)
            return
        with T.If(direction == 0):
            with T.Then():
                self._write(direction, first, 0)
            with T.Else():
                self._write(direction, first, 1)

    def _write(self, direction: Any, first: Any, kind: int) -> None:
        cells, memory = self._cells, self._cells.memory
        with T.serial(0, self._size) as row:
            cells.begin(direction, first, row)
        with T.serial(0, self._steps) as step:
            tile, weight = self._products[0]
            self._multiply(tile, weight, memory.hidden, direction)
            if memory.reset is not None:
                with T.serial(0, self._size) as row:
                    cells.reset(direction, first, row, step, kind)
                tile, weight = self._products[1]
                self._multiply(tile, weight, memory.reset, direction)
            with T.serial(0, self._size) as row:
                cells.advance(direction, first, row, step, kind)
        with T.serial(0, self._size) as row:
            cells.end(direction, first, row)

    def _multiply(self, tile: RecurrentTile, weight: Any, source: Any, direction: Any) -> None:
        """The sums of one product, for all sequences of the group."""
        count = -(-self._size // tile.rows)
        with T.serial(0, tile.blocks) as block:
            if count == 1:
                self._tile(tile, weight, source, (direction, block, 0))
                return
            with T.serial(0, count) as part:
                # the last tile may overlap the one before it
                first = tirx.min(part * tile.rows, self._size - tile.rows)
                self._tile(tile, weight, source, (direction, block, first))

    def _tile(
        self, tile: RecurrentTile, weight: Any, source: Any, place: tuple[Any, Any, Any]
    ) -> None:
        direction, block, first = place
        hidden, lanes = self._form.hidden, tile.lanes
        sums = T.decl_buffer([tile.rows * tile.width], "float32", scope="local")
        places = [
            (row, vector, [ramp(row * tile.width + vector * lanes, lanes)])
            for row in range(tile.rows)
            for vector in range(tile.vectors)
        ]
        zero = spread(tirx.const(0, "float32"), lanes)
        for _, _, sum_ in places:
            T.buffer_store(sums, zero, sum_)
        with T.serial(0, hidden) as k:
            for row, vector, sum_ in places:
                factor = spread(source[(first + row) * hidden + k], lanes)
                column = [direction, block, k, ramp(vector * lanes, lanes)]
                value = tirx.BufferLoad(weight, column) * factor
                T.buffer_store(sums, tirx.BufferLoad(sums, sum_) + value, sum_)
        gates = self._cells.memory.gates
        for row, vector, sum_ in places:
            start = (first + row) * (self._form.gates * hidden) + tile.first
            start = start + tile.start(block) + vector * lanes
            gates[ramp(start, lanes)] = tirx.BufferLoad(sums, sum_)
