"""Draws parts of networks, whose patterns graph passes look for: branches, residuals, gates."""

from __future__ import annotations

import numpy as np

from tests.fuzz.draft import Draft, Undrawable, Value
from tests.fuzz.draw_integers import _linear, _quantise, _quantised, _real_weight

_LAYERS = (
    *("conv", "conv", "conv", "depthwise", "norm", "act", "act", "add", "add", "mul", "gate"),
    *("concat", "pool", "up", "shuffle", "split", "scale", "dense"),
)


def network(d: Draft) -> None:
    """Layers in float, each of the last value or an earlier one."""
    known = [_picture(d)]
    for _ in range(d.generator.randint(3, 8)):
        x = d.pick(known[-3:]) if d.chance(0.3) else known[-1]
        known += _layer(d, d.pick(_LAYERS), x, known)


def _picture(d: Draft) -> Value:
    shape = (d.pick((1, 1, 2)), d.pick((3, 8, 12, 16, 24)), d.pick((1, 5, 8, 9)), d.pick((4, 7, 8)))
    return d.input(shape, "float32")


def _layer(d: Draft, kind: str, x: Value, known: list[Value]) -> list[Value]:
    n, channels, height, width = x.shape
    row = (1, channels, 1, 1)
    if kind == "conv":
        return [_conv(d, x, d.pick((channels, channels, 8, 16, 5)))]
    if kind == "depthwise":
        weight = d.operand((channels, 1, 3, 3), x.dtype)
        return d.call("Conv", [x, weight], group=channels, pads=[1] * 4)
    if kind == "norm":
        one = [d.constant(d.array((channels,), x.dtype)) for _ in range(3)]
        variance = d.constant(np.abs(d.array((channels,), x.dtype)) + np.float32(0.5))
        return d.call("BatchNormalization", [x, *one, variance])
    if kind == "act":
        return d.call(d.pick(("Relu", "Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh")), [x])
    if kind in ("add", "mul"):
        others = [v for v in known if v.shape == x.shape]
        pair = [x, d.pick(others)]
        d.generator.shuffle(pair)
        return d.call(kind.capitalize(), pair)
    if kind == "gate":
        (y,) = d.call("GlobalAveragePool", [x])
        (y,) = d.call(d.pick(("Sigmoid", "Relu")), [_conv(d, y, channels, 1)])
        return d.call("Mul", d.pick(([x, y], [y, x])))
    if kind == "concat":
        others = [v for v in known if v.shape[0] == n and v.shape[2:] == x.shape[2:]]
        return d.call("Concat", [x, d.pick(others)], axis=1)
    if kind == "pool":
        if width < 2:
            raise Undrawable("the window is larger")
        op = d.pick(("MaxPool", "AveragePool"))
        return d.call(op, [x], kernel_shape=[1, 2], strides=[1, 2])
    if kind == "up":
        if d.opset < 13:
            raise Undrawable("written otherwise")
        scales = np.array([1, 1, 2, 2], np.float32)
        return d.call("Resize", [x], scales=scales, mode=d.pick(("nearest", "linear")))
    if kind == "scale":
        return d.call(d.pick(("Mul", "Add", "Sub")), [x, d.constant(d.array(row, x.dtype))])
    if kind == "dense":
        # the end of many networks, and a tensor of the first shape again
        (y,) = d.call("GlobalAveragePool", [x])
        (y,) = d.call("Flatten", [y])
        (y,) = d.call("Gemm", [y, d.constant(d.array((channels, channels), x.dtype))])
        (y,) = d.call("Reshape", [y], shape=np.array([n, channels, 1, 1]))
        return d.call("Add", [x, y])
    if channels % 2:
        raise Undrawable("an odd number of channels")
    if kind == "split":
        return d.call("Split", [x], 2, axis=1, split=[channels // 2] * 2)
    (y,) = d.call("Reshape", [x], shape=np.array([n, 2, channels // 2, height, width]))
    (y,) = d.call("Transpose", [y], perm=[0, 2, 1, 3, 4])
    return d.call("Reshape", [y], shape=np.array(x.shape))


def _conv(d: Draft, x: Value, outputs: int, size: int = 0) -> Value:
    """A convolution that keeps the image's size; another one's weight where that fits."""
    size = size or d.pick((1, 3, 3, 5))
    weight = d.operand((outputs, x.shape[1], size, size), x.dtype)
    bias = [d.operand((outputs,), x.dtype)] if d.chance(0.5) else []
    return d.call("Conv", [x, weight, *bias], pads=[size // 2] * 4)[0]


def quantised_network(d: Draft) -> None:
    """Layers of 8 bits, whose values are read by several."""
    shape = _picture(d).shape
    known = [_quantised(d, shape)]
    for _ in range(d.generator.randint(2, 5)):
        x = d.pick(known[-3:]) if d.chance(0.3) else known[-1]
        (real,) = _linear(d, "DequantizeLinear", x)
        kind = d.pick(("conv", "conv", "depthwise", "add", "add", "concat", "act", "pool"))
        channels = x.shape[1]
        if kind in ("conv", "depthwise"):
            groups = channels if kind == "depthwise" else 1
            outputs = channels if groups > 1 or d.chance(0.6) else d.pick((5, 8, 16))
            size = d.pick((1, 3, 3))
            weight = _real_weight(d, (outputs, channels // groups, size, size), 0)
            (y,) = d.call("Conv", [real, weight], group=groups, pads=[size // 2] * 4)
            if d.chance(0.4):
                (y,) = d.call("Relu", [y])
        elif kind in ("add", "concat"):
            others = [v for v in known if v.shape == x.shape]
            (other,) = _linear(d, "DequantizeLinear", d.pick(others))
            given = {"axis": 1} if kind == "concat" else {}
            (y,) = d.call(kind.capitalize(), d.pick(([real, other], [other, real])), **given)
            if d.chance(0.3):
                (y,) = d.call("Relu", [y])
        elif kind == "act":
            (y,) = d.call("LeakyRelu", [real], alpha=0.25)
        else:
            (y,) = d.call("MaxPool", [real], kernel_shape=[1, 2], strides=[1, 1])
        known.append(_quantise(d, y, 16.0 if kind in ("conv", "depthwise") else 3.0))


STEPS = (network, network, quantised_network)
