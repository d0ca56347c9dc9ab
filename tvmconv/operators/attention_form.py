"""Operands and results of an attention, and the cuts of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvmconv.operators.attention_panels import Neighbors


@dataclass(frozen=True)
class Operand:
    """Where a matrix of each head is in a tensor.

    Parameters
    ----------
    number
        The tensor, by its number among the arguments.
    dims
        The shape of the operand: any batch axes, rows, columns. Batch axes broadcast.
    axes
        For each axis of the operand the axis of the tensor.
    offsets
        For each axis of the tensor the index where the operand begins.
    """

    number: int
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def neighbors(self) -> Neighbors:
        """The axis along which elements are neighbors in memory."""
        last = len(self.offsets) - 1
        if self.axes[-1] == last:
            return Neighbors.COLUMNS
        return Neighbors.ROWS if self.axes[-2] == last else Neighbors.NONE

    def place(self, batch: Sequence[Any], row: Any, column: Any) -> list[Any]:
        """The indices of an element, for indices of the batch axes of the whole product."""
        outer = batch[len(batch) - len(self.dims) + 2 :]
        sizes = self.dims[:-2]
        logical = [0 if n == 1 else index for n, index in zip(sizes, outer, strict=True)]
        indices: list[Any] = list(self.offsets)
        for axis, index in zip(self.axes, [*logical, row, column], strict=True):
            indices[axis] += index
        return indices


@dataclass(frozen=True)
class AttentionTile:
    """Rows of queries that share the workspace, and vectors of the two register tiles.

    ``parts`` is the number of tasks that share the rows of one head.
    """

    rows: int
    score_vectors: int
    value_vectors: int
    lanes: int
    parts: int = 1


@dataclass(frozen=True)
class Attention:
    """Sizes, operands and order of the result of an attention.

    Parameters
    ----------
    query, key, value
        Operands ``(rows, depth)``, ``(depth, columns)`` and ``(columns, width)`` of each head.
    batch, value_batch
        Batch axes of the first and of the second product: two views of the same heads.
    scale
        Factor of the queries.
    biases
        Tensors that are added to the scores, by number, with the shape of the scores there.
    order
        For each axis of the result in memory the axis of ``(*value_batch, rows, width)``.
    """

    query: Operand
    key: Operand
    value: Operand
    batch: tuple[int, ...]
    value_batch: tuple[int, ...]
    scale: float
    biases: tuple[tuple[int, tuple[int, ...]], ...]
    order: tuple[int, ...]

    @property
    def heads(self) -> int:
        """Pairs of products."""
        return prod(self.batch)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Rows, depth, columns and width of a head."""
        (rows, depth), (columns, width) = self.query.dims[-2:], self.value.dims[-2:]
        return rows, depth, columns, width

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        whole = (*self.value_batch, self.query.dims[-2], self.value.dims[-1])
        return tuple(whole[axis] for axis in self.order)
