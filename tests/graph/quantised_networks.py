"""INT8 networks that tests of the graph and of Arm build: each tests one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from tests.graph.quantised_net import QuantisedNet


def single(dtype: Any = np.uint8, **attrs: Any) -> onnx.ModelProto:
    net = QuantisedNet(1, 20, 9, 9, seed=1, dtype=dtype)
    shape = (24, 20 // attrs.get("group", 1), 3, 3)
    y = net.layer("Conv", net.rounded("x"), *shape, **attrs)
    return net.model(net.rounded(net.op("Relu", y)))


def residual(dtype: Any = np.uint8) -> onnx.ModelProto:
    net = QuantisedNet(2, 16, 8, 8, seed=3, dtype=dtype)
    x = net.rounded("x")
    a = net.rounded(net.layer("Conv", x, 16, 16, 3, 3))
    c = net.rounded(net.op("Relu", net.op("Add", a, x)))
    return net.model(net.rounded(net.layer("Conv", c, 32, 16, 1, 1)))


def joined() -> onnx.ModelProto:
    """Concatenation of unaligned channels, and poolings."""
    net = QuantisedNet(1, 16, 8, 8, seed=5)
    x, one, window = net.rounded("x"), net.parameters(), {"kernel_shape": [3, 3], "pads": [1] * 4}
    parts = [net.rounded(net.layer("Conv", x, k, 16, 3, 3)) for k in (20, 24)]
    c = net.rounded(net.op("Concat", *parts, axis=1), one)
    m = net.rounded(net.op("MaxPool", c, strides=[2, 2], **window), one)
    a = net.rounded(net.op("AveragePool", m, **window))
    return net.model(net.rounded(net.layer("Conv", a, 16, 44, 3, 3)))


def dense(dtype: Any = np.uint8) -> onnx.ModelProto:
    """A flattened image, then vectors."""
    net = QuantisedNet(1, 16, 4, 4, seed=7, dtype=dtype)
    p = net.rounded(net.layer("Conv", net.rounded("x"), 20, 16, 3, 3))
    flat = net.op("Flatten", p)
    net.scales[flat] = net.scales[p]
    f = net.layer("Gemm", flat, 32, 320, transB=1)
    g = net.rounded(net.op("Relu", f))
    return net.model(net.layer("Gemm", g, 10, 32, transB=1, bias=False))


def averaged() -> onnx.ModelProto:
    net = QuantisedNet(1, 16, 8, 8, seed=6)
    small = net.parameters(scale=0.01, zero=128)
    p = net.rounded(net.layer("Conv", net.rounded("x"), 20, 16, 3, 3), zero=128)
    m = net.rounded(net.op("GlobalAveragePool", p), small)
    f = net.rounded(net.op("Flatten", m), small)
    return net.model(net.rounded(net.layer("Gemm", f, 10, 20, transB=1), scale=0.003, zero=128))


def separable() -> onnx.ModelProto:
    net = QuantisedNet(1, 16, 8, 8, seed=8)
    p = net.rounded(net.op("Relu", net.layer("Conv", net.rounded("x"), 32, 16, 1, 1)))
    d = net.layer("Conv", p, 32, 1, 3, 3, group=32)
    d = net.op("Clip", d, net.const(np.float32(0)), net.const(np.float32(6)))
    return net.model(net.rounded(net.layer("Conv", net.rounded(d), 16, 32, 1, 1)))


def moved() -> onnx.ModelProto:
    """Activations other than limits, Resize, Split and Pad."""
    net = QuantisedNet(1, 16, 8, 8, seed=9)
    p = net.rounded(net.layer("Conv", net.rounded("x"), 16, 16, 3, 3))
    one = net.parameters()
    p = net.rounded(net.op("HardSwish", p), one)
    nearest = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    factors = net.const(np.array([1, 1, 2, 2], np.float32))
    p = net.rounded(net.op("Resize", p, "", factors, mode="nearest", **nearest), one)
    p = net.rounded(net.layer("Conv", p, 20, 16, 3, 3))
    a, b = net.op("Split", p, net.const(np.array([7, 13])), axis=1, outputs=2)
    a = net.op("Pad", a, net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])), net.const(np.float32(0)))
    net.scales[a] = net.scales[p]
    return net.model(net.rounded(net.layer("Conv", a, 5, 7, 3, 3)), b)


def shared() -> onnx.ModelProto:
    """A sum and its factor by a function of one of its operands."""
    net = QuantisedNet(1, 16, 8, 8, seed=11)
    a = net.rounded(net.layer("Conv", net.rounded("x"), 16, 16, 3, 3))
    c = net.rounded(net.op("Add", a, net.rounded(net.layer("Conv", a, 16, 16, 3, 3))))
    d = net.rounded(net.op("Sigmoid", a))
    return net.model(net.rounded(net.op("Mul", c, d)), c)


def steep() -> onnx.ModelProto:
    """A rounding whose scale is so small that sums times theirs leave 32 bits."""
    net = QuantisedNet(1, 16, 8, 8, seed=13)
    y = net.layer("Conv", net.rounded("x"), 16, 16, 3, 3)
    return net.model(net.rounded(y, scale=1e-8, zero=100))


def signal() -> onnx.ModelProto:
    net = QuantisedNet(1, 16, 30, seed=12)
    y = net.rounded(net.op("Relu", net.layer("Conv", net.rounded("x"), 24, 16, 3)))
    return net.model(net.rounded(net.layer("Conv", y, 16, 24, 3)))


def volume() -> onnx.ModelProto:
    """Volumes, the depth of one kernel alone, a residual of them, and their mean."""
    net = QuantisedNet(1, 3, 4, 9, 9, seed=13)
    a = net.rounded(net.op("Relu", net.layer("Conv", net.rounded("x"), 20, 3, 3, 3, 3)))
    b = net.rounded(net.layer("Conv", a, 20, 20, 3, 1, 1))
    c = net.rounded(net.op("Relu", net.op("Add", b, a)))
    d = net.rounded(net.layer("Conv", c, 16, 20, 1, 3, 3, strides=[1, 2, 2]))
    return net.model(d, net.rounded(net.op("GlobalAveragePool", d)))


def transposed(axis: int | None, dtype: Any = np.int8, zero: int = 0) -> onnx.ModelProto:
    """A transposed convolution, joined with a tensor of another scale."""
    net = QuantisedNet(1, 16, 8, 8, seed=14)
    x = net.rounded("x")
    count = () if axis is None else 20
    info = np.iinfo(dtype)
    values = net.generator.integers(info.min, info.max, (16, 20, 3, 3), dtype, endpoint=True)
    scale = (net.generator.uniform(0.5, 1.5, count) / 800).astype(np.float32)
    parts = (values, scale, np.full(count, zero, dtype))
    attrs = {} if axis is None else {"axis": axis}
    weight = net.op("DequantizeLinear", *map(net.const, parts), **attrs)
    steps = np.broadcast_to(net.scales[x] * scale, 20).astype(np.float32)
    bias = net.const(net.generator.integers(-3000, 3000, 20).astype(np.float32) * steps)
    window = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    y = net.rounded(net.op("LeakyRelu", net.op("ConvTranspose", x, weight, bias, **window)))
    nearest = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    factors = net.const(np.array([1, 1, 2, 2], np.float32))
    up = net.rounded(net.layer("Conv", x, 20, 16, 1, 1), net.parameters())
    joined = net.op(
        "Concat", y, net.op("Resize", up, "", factors, mode="nearest", **nearest), axis=1
    )
    c = net.rounded(joined)
    return net.model(net.rounded(net.layer("Conv", c, 16, 40, 3, 3)))


def branches() -> onnx.ModelProto:
    """A tensor whose readers are functions of its elements, and one that is not."""
    net = QuantisedNet(1, 16, 8, 8, seed=15)
    a = net.rounded(net.layer("Conv", net.rounded("x"), 16, 16, 3, 3))
    b = net.rounded(net.op("Mul", a, net.rounded(net.op("Sigmoid", a))))
    c = net.rounded(net.op("Add", b, net.rounded(net.op("Abs", a))))
    up = net.op("Resize", a, "", net.const(np.float32([1, 1, 2, 2])), mode="linear")
    return net.model(c, net.rounded(up))


def integers_out() -> onnx.ModelProto:
    net = QuantisedNet(1, 16, 8, 8, seed=10, dtype=np.int8)
    y = net.layer("Conv", net.rounded("x"), 16, 16, 3, 3)
    q = net.op("QuantizeLinear", y, *net.parameters())
    return net.model(q, net.op("MaxPool", q, kernel_shape=[2, 2]))


def weights(dtype: Any, zero: int, **attrs: Any) -> onnx.ModelProto:
    net = QuantisedNet(1, 20, 9, 9, seed=2)
    y = net.layer("Conv", net.rounded("x"), 24, 20, 3, 3, dtype=dtype, zero=zero, **attrs)
    return net.model(net.rounded(y))


def unrounded() -> onnx.ModelProto:
    """A residual that meets sums without a rounding after them."""
    net = QuantisedNet(1, 16, 8, 8, seed=16)
    x = net.rounded("x")
    y = net.op("Add", net.layer("Conv", x, 16, 16, 3, 3), x)
    return net.model(net.rounded(y))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "uint8": single,
    "int8": lambda: single(np.int8),
    "unsigned_weight": lambda: weights(np.uint8, 128),
    "wide_weight": lambda: weights(np.uint8, 100),
    "one_scale": lambda: weights(np.int8, 0, channels=False, bias=False),
    "groups": lambda: single(group=4),
    "residual": residual,
    "residual_int8": lambda: residual(np.int8),
    "joined": joined,
    "dense": dense,
    "dense_int8": lambda: dense(np.int8),
    "averaged": averaged,
    "separable": separable,
    "moved": moved,
    "shared": shared,
    "signal": signal,
    "volume": volume,
    "transposed": lambda: transposed(1),
    "transposed_one_scale": lambda: transposed(None, np.uint8, 128),
    "branches": branches,
    "integers_out": integers_out,
}
