"""Writes new rows into a cache, as attention layers with a cache do."""

from __future__ import annotations

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def cache_update(cache: Tensor, update: Tensor, first: Tensor, circular: bool) -> Tensor:
    """The cache with the rows of ``update`` from row ``first[batch]`` on.

    Parameters
    ----------
    cache, update
        Tensors of shape (batch, outer, rows, inner); the update has as many rows or fewer.
    first
        The row of each batch at which the update starts, int64.
    circular
        Whether rows after the last one continue at the first. Otherwise there must be none.
    """
    rows, count = int(cache.shape[2]), int(update.shape[2])

    def element(n: Expr, outer: Expr, row: Expr, inner: Expr) -> Expr:
        place = row.astype("int64") - first[n]
        if circular:
            place = tirx.floormod(place, tirx.const(rows, "int64"))
        new = tirx.all(place >= tirx.const(0, "int64"), place < tirx.const(count, "int64"))
        # not a selection: a vector of both would read far from the update
        return tirx.if_then_else(new, update[n, outer, place, inner], cache[n, outer, row, inner])

    return te.compute(cache.shape, element, name="cache_update")
