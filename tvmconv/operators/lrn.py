"""Local response normalization across channels."""

from __future__ import annotations

from tvmconv.operators import math
from tvmconv.operators.pool import tree
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def lrn_blocked(
    data: Tensor, channels: int, size: int, alpha: float, beta: float, bias: float
) -> Tensor:
    """``x / (bias + alpha / size * sum of x**2 over size neighboring channels) ** beta``.

    Data are ``(N, CB, H, W, c)``. Lanes beyond ``channels`` are not summed. Other parameters are
    ONNX's; the window of ``size`` channels starts ``(size - 1) // 2`` below.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    below = (size - 1) // 2

    # The squares of one position in plain channel order, with blocks of zeros on either side. A
    # window is then a few vector loads at neighboring addresses.
    margin = -(-size // lanes)

    def squared(n: Expr, h: Expr, w: Expr, position: Expr) -> Expr:
        block, lane = position // lanes - margin, position % lanes
        value = data[n, block, h, w, lane]
        zero = tirx.const(0, data.dtype)
        square = value * value
        if channels % lanes:
            square = tirx.Select(block * lanes + lane < channels, square, zero)
        return tirx.if_then_else(tirx.all(block >= 0, block < blocks), square, zero)

    extent = (blocks + 2 * margin) * lanes
    squares = te.compute((batch, height, width, extent), squared, name="lrn_squares")

    def normalized(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        first = (b + margin) * lanes + c - below
        window = tree([squares[n, h, w, first + k] for k in range(size)], lambda p, q: p + q)
        base = window * math.constant(alpha / size) + math.constant(bias)
        return data[n, b, h, w, c] * math.pow_positive(base, -beta)

    return te.compute(data.shape, normalized, name="lrn", attrs={"tvmconv.operator": "lrn"})


def lrn(data: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    """:func:`lrn_blocked` on a plain ``(N, C, ...)`` tensor."""
    channels = int(data.shape[1])
    below = (size - 1) // 2

    def square(index: tuple[Expr, ...], k: int) -> Expr:
        channel = index[1] + (k - below)
        # reading a neighbor that is then multiplied by zero is cheaper than a branch for each tap
        existing = tirx.min(tirx.max(channel, 0), channels - 1)
        value = data[(index[0], existing, *index[2:])]
        # a factor, because LLVM would copy the loop for every combination of conditions
        inside = tirx.Cast(data.dtype, tirx.all(channel >= 0, channel < channels))
        return value * value * inside

    def normalized(*index: Expr) -> Expr:
        window = tree([square(index, k) for k in range(size)], lambda p, q: p + q)
        base = window * math.constant(alpha / size) + math.constant(bias)
        return data[index] * math.pow_positive(base, -beta)

    return te.compute(data.shape, normalized, name="lrn", attrs={"tvmconv.operator": "lrn"})
