"""Running sums and sorting with independent elements, for devices of many threads.

A CPU runs along the axis. Here each element compares itself with all others of the axis. An axis of
n elements reads n squared, from caches and shared with neighbors, but no element waits for another.
"""

from __future__ import annotations

from tvmconv.operators.entries import goes_before
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

# with more elements along an axis a call would take seconds
LONGEST = 1 << 16


def running_sum(
    data: Tensor, axis: int, dtype: str, exclusive: bool, reverse: bool = False
) -> Tensor:
    """The sum in ``dtype`` of the values along an axis up to each; without it if ``exclusive``.

    With ``reverse``, the sums start at the end of the axis.
    """
    shape = [int(size) for size in data.shape]
    axis %= len(shape)
    other = te.reduce_axis((0, shape[axis]), "other")

    def total(*place: Expr) -> Expr:
        value = tirx.Cast(dtype, data[(*place[:axis], other, *place[axis + 1 :])])
        first, last = (place[axis], other) if reverse else (other, place[axis])
        reached = first < last if exclusive else first <= last
        # a selection, not a product: later elements may be NaN
        return te.sum(tirx.if_then_else(reached, value, tirx.const(0, dtype)), axis=[other])

    return te.compute(shape, total, name="running_sum")


def top_k(data: Tensor, k: int, axis: int, largest: bool, index_type: str) -> list[Tensor]:
    """As :func:`tvmconv.operators.sort.top_k`; each element counts the elements before it."""
    shape = [int(size) for size in data.shape]
    axis %= len(shape)
    result = [*shape[:axis], k, *shape[axis + 1 :]]
    other, place = (te.reduce_axis((0, shape[axis]), name) for name in ("other", "place"))

    def along(where: tuple[Expr, ...], position: Expr) -> tuple[Expr, ...]:
        return (*where[:axis], position, *where[axis + 1 :])

    def count(*where: Expr) -> Expr:
        mine, its = data[where], data[along(where, other)]
        ahead = goes_before(its, mine, data.dtype, largest)
        behind = goes_before(mine, its, data.dtype, largest)
        # equal elements keep their order
        tied = tirx.all(tirx.Not(behind), other < where[axis])
        return te.sum(tirx.Cast("int32", tirx.any(ahead, tied)), axis=[other])

    ranks = te.compute(shape, count, name="ranks")

    def find(*where: Expr) -> Expr:
        # not the type of loop indices, which graphs widen to 64 bits
        found, zero = tirx.Cast("uint32", place), tirx.const(0, "uint32")
        here = ranks[along(where, place)] == where[axis]
        return te.sum(tirx.if_then_else(here, found, zero), axis=[place])

    places = te.compute(result, find, name="places")
    values = te.compute(
        result, lambda *where: data[along(where, tirx.Cast("int32", places[where]))], name="values"
    )
    indices = te.compute(result, lambda *where: tirx.Cast(index_type, places[where]), name="index")
    return [values, indices]
