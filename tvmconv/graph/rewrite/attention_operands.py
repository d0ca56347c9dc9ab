"""Finds where the matrices of an attention are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tvmconv.graph.blockable import slice_ranges, split_ranges
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.rewrite.fold import scalar
from tvmconv.graph.rewrite.memory_view import MemoryView
from tvmconv.operators.attention_form import Operand, Part


@dataclass(frozen=True)
class Source:
    """A tensor, and the elements of it that are an operand's, without the factor ``scale``."""

    value: Value
    view: MemoryView
    scale: float = 1.0

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return prod(size for size, _ in self.view.axes[-2])

    def operand(self, batch: Sequence[int], number: int) -> Operand | None:
        """The matrix of each head; None if rows or columns are several axes of the memory."""
        *_, rows, columns = self.view.axes
        if len(rows) > 1 or len(columns) > 1:
            return None
        whole = self.view.broadcast((*batch, 1, 1))
        heads: tuple[Part, ...] = tuple(part for axis in whole.axes[:-2] for part in axis)
        row, column = (axis[0] if axis else (1, 0) for axis in (rows, columns))
        return Operand(number, heads, row, column, whole.offset)


def sources_of(value: Value, axes: Sequence[int]) -> Iterator[Source]:
    """The tensors in which an operand is, the earliest one first.

    ``axes`` are the axes of ``value`` for each axis of the operand.
    """
    for source in _sources(value):
        yield replace(source, view=source.view.transposed(axes))


def _sources(value: Value) -> list[Source]:
    made = value.producer
    found = [Source(value, MemoryView.row_major(value.dims))]
    if made is None or not made.inputs or made.inputs[0].shape is None:
        return found
    if (scaled := factor_of(made)) is not None:
        tensor, number = scaled
        return [replace(s, scale=s.scale * number) for s in _sources(tensor)] + found
    if made.op not in ("permute_dims", "reshape", "split", "strided_slice"):
        return found
    earlier = ((source, _seen(source.view, made, value)) for source in _sources(made.inputs[0]))
    return [replace(s, view=view) for s, view in earlier if view is not None] + found


def factor_of(node: Node) -> tuple[Value, float] | None:
    """The tensor and the factor of a product with one number; None for other nodes."""
    if node.op not in ("multiply", "divide"):
        return None
    left, right = node.args
    pairs = [(left, right), (right, left)] if node.op == "multiply" else [(left, right)]
    for tensor, other in pairs:
        number = scalar(other)
        if number is not None and isinstance(tensor, Value) and tensor.shape == node.output.shape:
            if node.op == "multiply":
                return tensor, number
            return (tensor, 1 / number) if number else None
    return None


def _seen(view: MemoryView, made: Node, value: Value) -> MemoryView | None:
    """The view of a node's result where ``view`` is its operand's."""
    if made.op == "reshape":
        return view.reshaped(value.dims)
    rank = len(view.axes)
    if made.op == "permute_dims":
        given = made.attrs.get("axes")
        return view.transposed(
            range(rank)[::-1] if given is None else [int(a) % rank for a in given]
        )
    ranges = slice_ranges(made) if made.op == "strided_slice" else split_ranges(made, value)
    return None if ranges is None else view.sliced(ranges)
