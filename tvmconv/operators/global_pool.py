"""Pooling over the whole image."""

from __future__ import annotations

from tvmconv.operators.pool import tree
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.tirx import const
from tvmconv.tvm_api.types import Expr, Tensor


def global_pool(data: Tensor, channels: int, kind: str = "avg", blocked: bool = False) -> Tensor:
    """Mean (``"avg"``) or maximum (``"max"``) over H and W of ``(N, CB, H, W, c)``.

    The result is ``(N, CB, 1, 1, c)`` if ``blocked``, else ``(N, channels, 1, 1)``.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    # a tree over part of a row per step: a single running sum would wait for each addition
    chunk = next(u for u in range(min(width, 8), 0, -1) if width % u == 0)
    row = te.reduce_axis((0, height), "row")
    column = te.reduce_axis((0, width // chunk), "column")
    combine, reduce = (tirx.max, te.max) if kind == "max" else ((lambda a, b: a + b), te.sum)

    def partial(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        values = [data[n, b, row, column * chunk + k, c] for k in range(chunk)]
        return reduce(tree(values, combine), axis=[row, column])

    total = te.compute(
        (batch, blocks, 1, 1, lanes),
        partial,
        name="global_pool",
        attrs={"tvmconv.operator": "global_pool"},
    )
    scale = const(1.0 / (height * width), data.dtype)

    def scaled(value: Expr) -> Expr:
        return value * scale if kind == "avg" else value

    if blocked:
        if kind != "avg":
            return total
        return te.compute(total.shape, lambda *i: scaled(total[i]), name="global_pool_output")
    return te.compute(
        (batch, channels, 1, 1),
        lambda n, ch, h, w: scaled(total[n, ch // lanes, h, w, ch % lanes]),
        name="global_pool_output",
    )
