"""Normalizations: RMSNormalization, and the operators of onnxruntime."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.composed.activation import silu
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.products import channels_first, channels_last
from tvmconv.frontend.operators import MICROSOFT


def layer_norm(
    p: Parts, x: str, scale: str, bias: str, axes: tuple[int, ...], epsilon: float
) -> list[str]:
    """The normalized value, and mean and 1 / deviation over the axes."""
    mean = p.reduced("ReduceMean", x, *axes)
    centered = p.op("Sub", x, mean)
    variance = p.reduced("ReduceMean", p.op("Mul", centered, centered), *axes)
    deviation = p.op("Sqrt", p.op("Add", variance, p.scalar(epsilon, x)))
    y = p.op("Mul", p.op("Div", centered, deviation), scale)
    if bias:
        y = p.op("Add", y, bias)
    return [y, mean, deviation]


def rms_norm(p: Parts, x: str, scale: str, axes: tuple[int, ...], epsilon: float) -> list[str]:
    """X over the root of its mean square, times a scale; and that root."""
    square = p.reduced("ReduceMean", p.op("Mul", x, x), *axes)
    root = p.op("Sqrt", p.op("Add", square, p.scalar(epsilon, x)))
    return [p.op("Mul", p.op("Div", x, root), scale), root]


def _axes(p: Parts) -> tuple[int, ...]:
    rank = len(p.shape(p.node.inputs[0]))
    if rank == 0:
        raise p.error("its input has no axes")
    return tuple(range(int(p.node.attrs.get("axis", -1)) % rank, rank))


def _check_scale(p: Parts, x: str, *names: str) -> None:
    """Scale and bias must not make the result larger than the operand."""
    for name in filter(None, names):
        shape = p.shape(x)
        sizes = zip(shape[::-1], p.shape(name)[::-1], strict=False)
        if len(p.shape(name)) > len(shape) or any(own not in (1, size) for size, own in sizes):
            raise p.error(f"{name!r} of shape {p.shape(name)} does not fit its input's {shape}")


@composes("", "RMSNormalization", attrs="axis epsilon stash_type", inputs=2)
def _rms(p: Parts) -> str:
    x, scale = p.node.inputs[:2]
    _check_scale(p, x, scale)
    return rms_norm(p, x, scale, _axes(p), float(p.node.attrs.get("epsilon", 1e-5)))[0]


@composes(MICROSOFT, "SimplifiedLayerNormalization", attrs="axis epsilon stash_type", inputs=2)
def _simplified(p: Parts) -> list[str]:
    x, scale = p.node.inputs[:2]
    _check_scale(p, x, scale)
    y, root = rms_norm(p, x, scale, _axes(p), float(p.node.attrs.get("epsilon", 1e-5)))
    return [y, _inverse(p, root)] if p.wants(1) else [y]


@composes(MICROSOFT, "LayerNormalization", attrs="axis epsilon stash_type", inputs=2)
def _layer_norm(p: Parts) -> list[str]:
    """LayerNormalization of operator sets that do not define it."""
    x, scale, bias = (p.node.input(index) for index in range(3))
    _check_scale(p, x, scale, bias)
    epsilon = float(p.node.attrs.get("epsilon", 1e-5))
    y, mean, deviation = layer_norm(p, x, scale, bias, _axes(p), epsilon)
    return [y, mean, _inverse(p, deviation)] if p.wants(2) else [y, mean]


def _inverse(p: Parts, root: str) -> str:
    return p.op("Div", p.scalar(1, root), root)


@composes(MICROSOFT, "SkipLayerNormalization", attrs="epsilon", inputs=3)
def _skip(p: Parts) -> list[str]:
    """LayerNormalization of input + skip + bias, and that sum."""
    x, skip, scale, shift, bias = (p.node.input(index) for index in range(5))
    total = _sum(p, x, skip, bias)
    _check_scale(p, total, scale, shift)
    axes = (len(p.shape(total)) - 1,)
    epsilon = float(p.node.attrs.get("epsilon", 1e-12))
    y, mean, deviation = layer_norm(p, total, scale, shift, axes, epsilon)
    return [y, mean, _inverse(p, deviation) if p.wants(2) else "", total]


@composes(MICROSOFT, "SkipSimplifiedLayerNormalization", attrs="epsilon", inputs=3)
def _skip_simplified(p: Parts) -> list[str]:
    """RMSNormalization of input + skip + bias, and that sum."""
    x, skip, scale, bias = (p.node.input(index) for index in range(4))
    total = _sum(p, x, skip, bias)
    _check_scale(p, total, scale)
    axes = (len(p.shape(total)) - 1,)
    y, root = rms_norm(p, total, scale, axes, float(p.node.attrs.get("epsilon", 1e-12)))
    return [y, "", _inverse(p, root) if p.wants(2) else "", total]


def _sum(p: Parts, x: str, skip: str, bias: str) -> str:
    shape = p.expect_rank(x, 2, 3)
    p.expect_shape(skip, shape, (1, *shape[1:]), shape[1:])
    total = p.op("Add", x, skip)
    if bias:
        p.expect_shape(bias, shape[-1:])
        total = p.op("Add", total, bias)
    return total


@composes(
    MICROSOFT, "GroupNorm", "SkipGroupNorm",
    attrs="activation channels_last epsilon groups", inputs=3,
)  # fmt: skip
def _group_norm(p: Parts) -> list[str]:
    """Normalize groups of channels, which are last by default."""
    x, scale, shift, skip, bias = (p.node.input(index) for index in range(5))
    last = p.flag("channels_last", 1)
    total = x
    if p.node.op == "SkipGroupNorm":
        added = skip
        if len(p.shape(skip)) == 2:
            batch, channels = p.shape(skip)
            added = p.reshape(skip, (batch, 1, 1, channels) if last else (batch, channels, 1, 1))
        total = p.op("Add", x, added)
        if bias:
            channels = p.shape(bias)[0]
            total = p.op("Add", total, bias if last else p.reshape(bias, (channels, 1, 1)))
    image = channels_first(p, total) if last else total
    batch, channels, *plane = p.shape(image)
    groups = p.heads("groups", channels)
    rows = p.reshape(image, (batch, groups, channels // groups * int(np.prod(plane))))
    mean = p.reduced("ReduceMean", rows, 2)
    centered = p.op("Sub", rows, mean)
    variance = p.reduced("ReduceMean", p.op("Mul", centered, centered), 2)
    epsilon = p.scalar(float(p.node.attrs.get("epsilon", 1e-5)), x)
    normal = p.op("Div", centered, p.op("Sqrt", p.op("Add", variance, epsilon)))
    column = (1, channels, *(1 for _ in plane))
    columns = [p.cast(p.reshape(name, column), p.dtype(x)) for name in (scale, shift)]
    y = p.op("Mul", p.reshape(normal, p.shape(image)), columns[0])
    y = p.op("Add", y, columns[1])
    if p.flag("activation"):
        y = silu(p, y)
    return [channels_last(p, y) if last else y, total]
