"""Converts between the plain (N, C, H, W) and the channel-blocked (N, CB, H, W, c) layout."""

from __future__ import annotations

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def to_blocked(data: Tensor, lanes: int) -> Tensor:
    """Block the channels of ``(N, C, H, W)``: ``(N, ceil(C / lanes), H, W, lanes)``.

    Lanes without a channel hold zeros.
    """
    batch, channels, height, width = (int(d) for d in data.shape)

    def element(n: Expr, block: Expr, h: Expr, w: Expr, lane: Expr) -> Expr:
        channel = block * lanes + lane
        value = data[n, channel, h, w]
        if channels % lanes == 0:
            return value
        return tirx.if_then_else(channel < channels, value, tirx.const(0, data.dtype))

    shape = (batch, -(-channels // lanes), height, width, lanes)
    return te.compute(shape, element, name="to_blocked", attrs={"tvmconv.operator": "to_blocked"})


def from_blocked(data: Tensor, channels: int) -> Tensor:
    """Restore the plain layout ``(N, channels, H, W)`` from ``(N, CB, H, W, c)``."""
    batch, _, height, width, lanes = (int(d) for d in data.shape)
    return te.compute(
        (batch, channels, height, width),
        lambda n, ch, h, w: data[n, ch // lanes, h, w, ch % lanes],
        name="from_blocked",
        attrs={"tvmconv.operator": "from_blocked"},
    )
