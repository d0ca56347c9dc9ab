"""Activations of onnxruntime's operator set, alone and after layers."""

from __future__ import annotations

from math import pi, sqrt

from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.operators import MICROSOFT

_CUBIC = 0.044715
_PLAIN = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
# names of the attributes of activations that layers apply, in the order of their values
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_PLAIN, ()),
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "ThresholdedRelu": ("alpha",),
}


def activated(p: Parts, x: str, name: str, values: dict[str, float]) -> str:
    """The result of a named activation; attributes without a value have their defaults."""
    if not name:
        return x
    if name not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        raise p.error(f"activation={name!r} is unknown", f"use one of {known}")
    if name == "Clip" and p.node.opset >= 11:
        bounds = [p.scalar(values[key], x) if key in values else "" for key in ("min", "max")]
        return p.op("Clip", x, *bounds)
    return p.op(name, x, **values)


def gelu(p: Parts, x: str) -> str:
    """The exact Gelu, in the form that all operator sets have."""
    inner = p.op("Erf", p.scaled(x, 1 / sqrt(2)))
    return p.scaled(p.op("Mul", x, p.op("Add", inner, p.scalar(1, x))), 0.5)


def gelu_tanh(p: Parts, x: str) -> str:
    """The Gelu by a hyperbolic tangent."""
    if p.node.opset >= 20:
        return p.op("Gelu", x, approximate="tanh")
    cube = p.scaled(p.op("Mul", p.op("Mul", x, x), x), _CUBIC)
    inner = p.op("Tanh", p.scaled(p.op("Add", x, cube), sqrt(2 / pi)))
    return p.scaled(p.op("Mul", x, p.op("Add", inner, p.scalar(1, x))), 0.5)


def silu(p: Parts, x: str, alpha: float = 1.0) -> str:
    """X * sigmoid(alpha * x)."""
    return p.op("Mul", x, p.op("Sigmoid", p.scaled(x, alpha)))


def _biased(p: Parts) -> str:
    x, bias = p.node.inputs[0], p.node.input(1)
    if not bias:
        return x
    p.expect_shape(bias, p.shape(x)[-1:])
    return p.op("Add", x, bias)


@composes(MICROSOFT, "Gelu", "BiasGelu")
def _gelu(p: Parts) -> str:
    return gelu(p, _biased(p))


@composes(MICROSOFT, "FastGelu")
def _fast_gelu(p: Parts) -> str:
    return gelu_tanh(p, _biased(p))


@composes(MICROSOFT, "QuickGelu", attrs="alpha")
def _quick_gelu(p: Parts) -> str:
    return silu(p, p.node.inputs[0], float(p.node.attrs.get("alpha", 1.702)))


@composes(MICROSOFT, "BiasSplitGelu", inputs=2)
def _bias_split_gelu(p: Parts) -> str:
    """One part of the channels times the Gelu of the other part."""
    x = _biased(p)
    shape = p.expect_rank(x, 3)
    if shape[2] % 2:
        raise p.error(f"it cannot split {shape[2]} channels into two parts")
    left, right = p.split(x, 2, (shape[2] // 2,) * 2)
    return p.op("Mul", left, gelu(p, right))


@composes(MICROSOFT, "BiasAdd", inputs=3)
def _bias_add(p: Parts) -> str:
    """X + bias + skip."""
    return p.op("Add", _biased(p), p.node.inputs[2])
