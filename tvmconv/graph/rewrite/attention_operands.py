"""Finds where the matrices of an attention are in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from tvmconv.graph.ir import Node, Value
from tvmconv.graph.rewrite.fold import scalar


@dataclass(frozen=True)
class Source:
    """A tensor that holds an operand of the shape ``dims``, without the factor ``scale``.

    ``axes`` are the axes of the tensor for each axis of the operand, and ``offsets`` the first
    index along each axis of the tensor.
    """

    value: Value
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    offsets: tuple[int, ...]
    scale: float = 1.0


def source_of(value: Value, axes: tuple[int, ...]) -> Source:
    """The tensor before transpositions, slices and factors of an operand.

    ``axes`` are the axes of ``value`` for each axis of the operand.
    """
    dims = tuple(value.dims[axis] for axis in axes)
    found = Source(value, dims, axes, (0,) * len(value.dims))
    while (earlier := _earlier(found)) is not None:
        found = earlier
    return found


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


def _earlier(source: Source) -> Source | None:
    made = source.value.producer
    if made is None or not made.inputs or made.inputs[0].shape is None:
        return None
    if (scaled := factor_of(made)) is not None:
        tensor, number = scaled
        return replace(source, value=tensor, scale=source.scale * number)
    rules = {"permute_dims": _transposed, "reshape": _squeezed, "split": _split}
    rule = rules.get(made.op)
    return rule(source, made) if rule else None


def _transposed(source: Source, made: Node) -> Source:
    rank = len(source.offsets)
    given = made.attrs.get("axes")
    order = tuple(reversed(range(rank))) if given is None else [int(a) % rank for a in given]
    offsets = [0] * rank
    for axis, offset in zip(order, source.offsets, strict=True):
        offsets[axis] = offset
    axes = tuple(order[axis] for axis in source.axes)
    return replace(source, value=made.args[0], axes=axes, offsets=tuple(offsets))


def _squeezed(source: Source, made: Node) -> Source | None:
    """Before the removal of one axis of size 1."""
    before, dims = made.args[0].dims, source.value.dims
    for axis in range(len(before)):
        if before[axis] == 1 and (*before[:axis], *before[axis + 1 :]) == dims:
            axes = tuple(each + (each >= axis) for each in source.axes)
            offsets = (*source.offsets[:axis], 0, *source.offsets[axis:])
            return replace(source, value=made.args[0], axes=axes, offsets=offsets)
    return None


def _split(source: Source, made: Node) -> Source | None:
    """The tensor of which the operand is a part."""
    whole: Value = made.args[0]
    sizes = [output.dims for output in made.outputs]
    differing = [
        axis for axis, size in enumerate(whole.dims) if any(dims[axis] != size for dims in sizes)
    ]
    if len(differing) != 1:
        return None
    axis, number = differing[0], made.outputs.index(source.value)
    start = [0, *accumulate(dims[axis] for dims in sizes)][number]
    offsets = list(source.offsets)
    offsets[axis] += start
    return replace(source, value=whole, offsets=tuple(offsets))
