"""Operands and results of an attention, and the cuts of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvmconv.operators.attention_panels import Neighbors
from tvmconv.operators.vector_loops import place_of

# a number of steps, and the distance of a step in elements
Part = tuple[int, int]


@dataclass(frozen=True)
class Operand:
    """Where the matrix of each head is in a tensor.

    Parameters
    ----------
    number
        The tensor, by its number among the arguments.
    heads
        Axes of the heads, outermost first. The sizes of all operands have one product.
    rows, columns
        Axes of the matrix.
    offset
        The first element.
    """

    number: int
    heads: tuple[Part, ...]
    rows: Part
    columns: Part
    offset: int = 0

    @property
    def neighbors(self) -> Neighbors:
        """The axis along which elements are neighbors in memory."""
        if self.columns[1] == 1:
            return Neighbors.COLUMNS
        return Neighbors.ROWS if self.rows[1] == 1 else Neighbors.NONE

    def place(self, head: Any, row: Any, column: Any) -> Any:
        """The flat index of an element."""
        indices = place_of(head, [size for size, _ in self.heads])
        outer = sum(i * distance for i, (_, distance) in zip(indices, self.heads, strict=True))
        return self.offset + outer + row * self.rows[1] + column * self.columns[1]


@dataclass(frozen=True)
class Step:
    """One operation on scores or weights.

    Parameters
    ----------
    kind
        ``add`` and ``multiply`` by the tensor, or by ``value`` without a tensor. ``keep`` and
        ``fill`` write ``value`` where the tensor is false and true. ``fill_nan`` replaces NaN.
    dims
        The shape of the scores, to which the tensor is broadcast.
    tensor
        The shape of the tensor; None without a tensor.
    number
        The tensor, by its number among the arguments.
    value
        A number.
    """

    kind: str
    dims: tuple[int, ...]
    tensor: tuple[int, ...] | None = None
    number: int = -1
    value: float = 0.0

    def place(self, row: Any) -> tuple[Any, int]:
        """The first element of the tensor for a row of all heads, and the distance of columns."""
        assert self.tensor is not None
        shape = (1,) * (len(self.dims) - len(self.tensor)) + self.tensor
        first, distance = 0, 1
        indices = place_of(row, self.dims[:-1])
        columns = shape[-1]
        for size, index in zip(reversed(shape[:-1]), reversed(indices), strict=True):
            if size != 1:
                first = first + index * (distance * columns)
                distance *= size
        return first, int(columns != 1)


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
    batch
        The heads as batch axes of the result.
    scale
        Factor of the queries.
    before, after
        Steps from the product of queries and keys to the softmax, and from there to the values.
    order
        For each axis of the result in memory the axis of ``(*batch, rows, width)``.
    """

    query: Operand
    key: Operand
    value: Operand
    batch: tuple[int, ...]
    scale: float
    before: Sequence[Step]
    after: Sequence[Step]
    order: tuple[int, ...]

    @property
    def heads(self) -> int:
        """Pairs of products."""
        return prod(self.batch)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Rows, depth, columns and width of a head."""
        return (
            self.query.rows[0],
            self.query.columns[0],
            self.value.rows[0],
            self.value.columns[0],
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        whole = (*self.batch, self.query.rows[0], self.value.columns[0])
        return tuple(whole[axis] for axis in self.order)
