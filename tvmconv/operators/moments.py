"""Means and inverse standard deviations, for standardization.

The variance is the mean of squared distances from the mean, in a second pass, as in FP64 libraries.
The difference of two means of squares would cancel. The mean is computed from differences to one of
the values. Sums of large numbers that differ little would lose their differences. Reference: Chan,
Golub and LeVeque, Algorithms for computing the sample variance, The American Statistician 37
(1983).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tvmconv.operators.pool import tree
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Index, Tensor


def inverse_deviation(total: Expr, count: int, epsilon: float) -> Expr:
    """1 / sqrt(total / count + epsilon)."""
    return _root(total * tirx.const(1.0 / count, "float32"), epsilon)


def _root(variance: Expr, epsilon: float) -> Expr:
    """1 / sqrt(variance + epsilon)."""
    one = tirx.const(1.0, "float32")
    return one / tirx.sqrt(variance + tirx.const(epsilon, "float32"))


def _square(value: Expr) -> Expr:
    return value * value


def row_moments(data: Tensor, epsilon: float) -> list[Tensor]:
    """Mean and ``1 / sqrt(variance + epsilon)`` of each row of FP32 ``(R, K)``, each ``(R,)``."""
    rows, count = (int(d) for d in data.shape)
    if count == 1:
        # a single value is its mean, and infinity and NaN become NaN in the distance from it
        mean = te.compute((rows,), lambda r: data[r, 0], name="mean")
        inverse = te.compute(
            (rows,),
            lambda r: inverse_deviation(tirx.const(0.0, "float32"), 1, epsilon),
            name="inverse",
        )
        return [mean, inverse]
    k, j = te.reduce_axis((0, count), "k"), te.reduce_axis((0, count), "j")
    total = te.compute((rows,), lambda r: te.sum(data[r, k] - data[r, 0], axis=k), name="total")
    scale = tirx.const(1.0 / count, "float32")
    mean = te.compute((rows,), lambda r: data[r, 0] + total[r] * scale, name="mean")
    squares = te.compute(
        (rows,), lambda r: te.sum(_square(data[r, j] - mean[r]), axis=j), name="squares"
    )
    inverse = te.compute(
        (rows,), lambda r: inverse_deviation(squares[r], count, epsilon), name="inverse"
    )
    return [mean, inverse]


def channel_moments(data: Tensor, channels: int, epsilon: float) -> list[Tensor]:
    """Mean and ``1 / sqrt(variance + epsilon)`` over the channels of each position.

    FP32 data are ``(N, CB, H, W, c)``; a plain tensor has ``c`` = 1. ``channels`` excludes surplus
    lanes. Both results are ``(N, 1, H, W, 1)``.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    whole = channels % lanes == 0
    zero = tirx.const(0.0, "float32")

    def summed(name: str, element: Callable[..., Expr]) -> Tensor:
        b, lane = te.reduce_axis((0, blocks), "b"), te.reduce_axis((0, lanes), "lane")

        def partial(n: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            value = element(n, b, h, w, c)
            if not whole:
                value = tirx.Select(b * lanes + c < channels, value, zero)
            return te.sum(value, axis=b)

        lanewise = te.compute((batch, height, width, lanes), partial, name=f"{name}_lanes")
        return te.compute(
            (batch, height, width),
            lambda n, h, w: te.sum(lanewise[n, h, w, lane], axis=lane),
            name=name,
        )

    shape = (batch, 1, height, width, 1)
    total = summed("total", lambda n, b, h, w, c: data[n, b, h, w, c] - data[n, 0, h, w, 0])
    scale = tirx.const(1.0 / channels, "float32")
    mean = te.compute(
        shape, lambda n, b, h, w, c: data[n, 0, h, w, 0] + total[n, h, w] * scale, name="mean"
    )
    squares = summed(
        "squares", lambda n, b, h, w, c: _square(data[n, b, h, w, c] - mean[n, 0, h, w, 0])
    )
    inverse = te.compute(
        shape,
        lambda n, b, h, w, c: inverse_deviation(squares[n, h, w], channels, epsilon),
        name="inverse",
    )
    return [mean, inverse]


def group_moments(data: Tensor, channels: int, groups: int, epsilon: float) -> list[Tensor]:
    """Mean and ``1 / sqrt(variance + epsilon)`` of each channel's group over the whole image.

    FP32 data are ``(N, CB, H, W, c)``. ``channels`` excludes surplus lanes, and is a multiple of
    ``groups``. Both results are ``(N, CB, 1, 1, c)``; values of surplus lanes have no meaning.
    """
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    size, shape = channels // groups, (batch, blocks, 1, 1, lanes)
    count = size * height * width

    def pooled(name: str, element: Callable[..., Expr]) -> Tensor:
        own = _image_sums(data, name, element)
        if size == 1:
            return own
        each = te.reduce_axis((0, size), "each")

        def joined(n: Expr, g: Expr) -> Expr:
            channel = g * size + each
            return te.sum(own[n, channel // lanes, 0, 0, channel % lanes], axis=each)

        together = te.compute((batch, groups), joined, name=f"{name}_groups")

        def group(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            return together[n, tirx.min(b * lanes + c, channels - 1) // size]

        return te.compute(shape, group, name=f"{name}_each")

    def first(n: Expr, b: Expr, c: Expr) -> Expr:
        """The first value of the channel's group."""
        if size == 1:
            return data[n, b, 0, 0, c]
        channel = tirx.min(b * lanes + c, channels - 1) // size * size
        return data[n, channel // lanes, 0, 0, channel % lanes]

    shift = te.compute(shape, lambda n, b, h, w, c: first(n, b, c), name="shift")
    total = pooled("total", lambda n, b, h, w, c: data[n, b, h, w, c] - shift[n, b, 0, 0, c])
    scale = tirx.const(1.0 / count, "float32")
    mean = te.compute(shape, lambda *i: shift[i] + total[i] * scale, name="mean")
    squares = pooled(
        "squares", lambda n, b, h, w, c: _square(data[n, b, h, w, c] - mean[n, b, 0, 0, c])
    )
    inverse = te.compute(
        shape, lambda *i: inverse_deviation(squares[i], count, epsilon), name="inverse"
    )
    return [mean, inverse]


def batch_moments(data: Tensor, epsilon: float) -> list[Tensor]:
    """Mean, ``1 / sqrt(variance + epsilon)`` and variance of each channel over the whole batch.

    FP32 data are ``(N, CB, H, W, c)``, with results ``(1, CB, 1, 1, c)``; values of surplus lanes
    have no meaning. Or they are plain, ``(N, C, K)``, with results ``(1, C, 1)``.
    """
    batch, channels, *image = (int(d) for d in data.shape)
    blocked = len(image) > 1
    shape = (1, channels, *((1, 1, image[2]) if blocked else (1,)))
    count = batch * prod(image[:2])

    def pooled(name: str, element: Callable[..., Expr]) -> Tensor:
        n, k = te.reduce_axis((0, batch), "n"), te.reduce_axis((0, image[0]), "k")
        if blocked:
            own = _image_sums(data, f"{name}_images", element)
        elif image[0] == 1:
            return te.compute(shape, lambda _, c, one: te.sum(element(n, c, one), n), name=name)
        else:
            own = te.compute(
                (batch, channels, 1),
                lambda n, c, one: te.sum(element(n, c, k), k),
                name=f"{name}_images",
            )
        if batch == 1:
            return own
        return te.compute(shape, lambda _, *i: te.sum(own[(n, *i)], n), name=name)

    def place(b: Expr, inside: tuple[Expr, ...]) -> tuple[Index, ...]:
        return (0, b, 0, 0, inside[2]) if blocked else (0, b, 0)

    shift = te.compute(shape, lambda _, b, *i: data[place(b, i)], name="shift")
    total = pooled("total", lambda n, b, *i: data[(n, b, *i)] - shift[place(b, i)])
    scale = tirx.const(1.0 / count, "float32")
    mean = te.compute(shape, lambda *i: shift[i] + total[i] * scale, name="mean")
    squares = pooled("squares", lambda n, b, *i: _square(data[(n, b, *i)] - mean[place(b, i)]))
    variance = te.compute(shape, lambda *i: squares[i] * scale, name="variance")
    inverse = te.compute(shape, lambda *i: _root(variance[i], epsilon), name="inverse")
    return [mean, inverse, variance]


def _image_sums(data: Tensor, name: str, element: Callable[..., Expr]) -> Tensor:
    """``(N, CB, 1, 1, c)``: sums of ``element`` over each image of ``(N, CB, H, W, c)``."""
    batch, blocks, height, width, lanes = (int(d) for d in data.shape)
    # a tree over part of a row in each step: a single running sum would wait for each addition
    chunk = next(u for u in range(min(width, 8), 0, -1) if width % u == 0)
    row, column = te.reduce_axis((0, height), "row"), te.reduce_axis((0, width // chunk), "col")

    def partial(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
        values = [element(n, b, row, column * chunk + k, c) for k in range(chunk)]
        return te.sum(tree(values, lambda left, right: left + right), axis=[row, column])

    return te.compute((batch, blocks, 1, 1, lanes), partial, name=name)
