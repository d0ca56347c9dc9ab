"""Activations, in the canonical forms of :mod:`tvmconv.frontend.canonical`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan

import numpy as np

from tvmconv.frontend.convert.elementwise import expm1, log1p
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.idioms import clip_bounds
from tvmconv.tvm_api import relax, tirx
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
# between these exp(x / alpha) - 1 keeps three digits more than float16 has
_SMALLEST_ALPHA, _LARGEST_ALPHA = 1e-3, 1e3


def _relu(e: RelaxWriter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    return op.nn.relu(x) if dtype.startswith("float") else op.maximum(x, e.scalar(0, dtype))


def _softplus(e: RelaxWriter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    """max(x, 0) + log(1 + exp(-abs(x))), which does not overflow."""
    small = e.emit(op.exp(op.negative(op.abs(x))), "small")
    tail = log1p(e, small) if dtype == "float64" else op.log(op.add(small, e.scalar(1, dtype)))
    return e.emit(op.add(op.maximum(x, e.scalar(0, dtype)), tail), "softplus")


# functions of the writer, the operand and its type
_PLAIN: dict[str, Callable[[RelaxWriter, RelaxExpr, str], RelaxExpr]] = {
    "Mish": lambda e, x, dtype: op.multiply(x, op.tanh(_softplus(e, x, dtype))),
    "Relu": _relu,
    "Softplus": _softplus,
    "Softsign": lambda e, x, dtype: op.divide(x, op.add(op.abs(x), e.scalar(1, dtype))),
}


@converts(*_PLAIN)
def plain(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """An activation without attributes."""
    return _PLAIN[node.op](e, e.value(node.inputs[0]), e.dtype(node.inputs[0]))


@converts("LeakyRelu", attrs="alpha")
def leaky_relu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X where x > 0, else alpha * x."""
    return op.nn.leakyrelu(e.value(node.inputs[0]), float(node.attrs.get("alpha", 0.01)))


@converts("Clip", attrs="min max")
def clip(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """min(max(x, low), high)."""
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    # a float would round bounds of 64-bit integers
    bounds = clip_bounds(e.graph, node) if dtype.startswith("float") else None
    if bounds is None:
        low, high = node.input(1), node.input(2)
        for name in filter(None, (low, high)):
            if np.prod(e.shape(name)) != 1:
                raise node.error(f"bound {name!r} of shape {e.shape(name)} must be a scalar",
                                 "use Max and Min")  # fmt: skip
        if low:
            x = e.emit(op.maximum(x, e.value(low)), "low")
        return op.minimum(x, e.value(high)) if high else x
    # a NaN bounds nothing in onnxruntime
    low_value = -inf if bounds[0] is None or isnan(bounds[0]) else bounds[0]
    high_value = inf if bounds[1] is None or isnan(bounds[1]) else bounds[1]
    if dtype == "float32":
        # opset 6 spells "no bound" as the largest float
        limit = float(np.finfo(np.float32).max)
        low_value = -inf if low_value <= -limit else low_value
        high_value = inf if high_value >= limit else high_value
        if low_value == 0.0 and high_value == inf:
            return op.nn.relu(x)
        if -inf < low_value <= high_value < inf:
            return _clip(x, low_value, high_value)
    if low_value != -inf:
        x = e.emit(op.maximum(x, e.scalar(low_value, dtype)), "low")
    return x if high_value == inf else op.minimum(x, e.scalar(high_value, dtype))


def _clip(x: RelaxExpr, low: float, high: float) -> RelaxExpr:
    return op.clip(x, tirx.FloatImm("float32", low), tirx.FloatImm("float32", high))


@converts("PRelu", inputs=2)
def prelu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X where x >= 0, else slope * x, the slope broadcast to x."""
    name = node.inputs[0]
    x, shape, dtype = e.value(name), e.shape(name), e.dtype(name)
    slope = e.array(node.inputs[1])
    if slope is not None and slope.size == 1 and dtype == "float32":
        return op.nn.leakyrelu(x, float(slope.reshape(-1)[0]))
    if slope is not None and len(shape) > 1 and dtype == "float32":
        # before opset 7 a vector always meant channels
        aligned = (1,) * (len(shape) - slope.ndim) + slope.shape
        if node.opset < 7 and slope.shape == (shape[1],):
            aligned = (1, shape[1], *[1] * (len(shape) - 2))
        if aligned[1] == shape[1] == slope.size:
            return op.nn.prelu(x, constant(slope.reshape(-1)), axis=1)
    factor = e.value(node.inputs[1])
    if node.opset < 7 and len(shape) > 1 and e.shape(node.inputs[1]) == (shape[1],):
        factor = e.emit(op.reshape(factor, (shape[1], *[1] * (len(shape) - 2))), "slope")
    scaled = e.emit(op.multiply(x, factor), "scaled")
    negative = e.emit(op.less(x, e.scalar(0, dtype)), "negative")
    return op.where(negative, scaled, x)


@converts("HardSigmoid", attrs="alpha beta")
def hard_sigmoid(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """clip(alpha * x + beta, 0, 1)."""
    alpha, beta = float(node.attrs.get("alpha", 0.2)), float(node.attrs.get("beta", 0.5))
    return _hard_sigmoid(e, node, alpha, beta)


def _hard_sigmoid(e: RelaxWriter, node: OnnxNode, alpha: float, beta: float) -> RelaxExpr:
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    scaled = e.emit(op.multiply(x, e.scalar(alpha, dtype)), "scaled")
    shifted = e.emit(op.add(scaled, e.scalar(beta, dtype)), "shifted")
    if dtype == "float32":
        return _clip(shifted, 0.0, 1.0)
    low = e.emit(op.maximum(shifted, e.scalar(0, dtype)), "low")
    return op.minimum(low, e.scalar(1, dtype))


@converts("HardSwish")
def hard_swish(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X * clip(x / 6 + 1/2, 0, 1)."""
    gate = e.emit(_hard_sigmoid(e, node, 1 / 6, 0.5), "gate")
    return op.multiply(e.value(node.inputs[0]), gate)


@converts("Swish", attrs="alpha")
def swish(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X * sigmoid(alpha * x)."""
    return _swish(e, node)


def _swish(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    x, alpha = e.value(node.inputs[0]), float(node.attrs.get("alpha", 1.0))
    if alpha == 1.0:
        return op.nn.silu(x)
    gate = op.sigmoid(op.multiply(x, e.scalar(alpha, e.dtype(node.inputs[0]))))
    return op.multiply(x, e.emit(gate, "gate"))


@converts("SwiGLU", attrs="alpha", inputs=2)
def swiglu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Swish of the first operand times the second."""
    return op.multiply(e.emit(_swish(e, node), "swish"), e.value(node.inputs[1]))


@converts("Gelu", attrs="approximate")
def gelu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Exact or tanh-approximated Gelu."""
    mode = node.attrs.get("approximate", "none")
    if mode not in ("none", "tanh"):
        raise node.error(f"approximate={mode!r} is unknown", "use 'none' or 'tanh'")
    function = op.nn.gelu_tanh if mode == "tanh" else op.nn.gelu
    return function(e.value(node.inputs[0]))


@converts("Elu", attrs="alpha")
def elu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X where x > 0, else alpha * (exp(x) - 1)."""
    return _elu(e, node, float(node.attrs.get("alpha", 1.0)), 1.0)


@converts("Celu", attrs="alpha")
def celu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
    alpha = float(node.attrs.get("alpha", 1.0))
    if alpha == 0:
        raise node.error("alpha=0 divides by zero")
    if _SMALLEST_ALPHA <= abs(alpha) <= _LARGEST_ALPHA:
        return _elu(e, node, alpha, 1.0 / alpha)
    return _celu_of_extreme_alpha(e, node, alpha)


def _celu_of_extreme_alpha(e: RelaxWriter, node: OnnxNode, alpha: float) -> RelaxExpr:
    """Celu where exp(x / alpha) - 1 would lose all digits, or a factor leaves the type's range.

    Computed in float64.
    """
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    zero = e.scalar(0, "float64")
    wide = e.emit(op.astype(x, "float64"), "wide")
    ratio = e.emit(op.divide(op.minimum(wide, zero), e.scalar(alpha, "float64")), "ratio")
    scaled = e.emit(op.multiply(expm1(e, ratio), e.scalar(alpha, "float64")), "alpha")
    return op.astype(e.emit(op.add(op.maximum(wide, zero), scaled), "celu"), dtype)


@converts("Selu", attrs="alpha gamma")
def selu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Gamma * Elu(x)."""
    alpha = float(node.attrs.get("alpha", 1.67326319217681884765625))
    gamma = float(node.attrs.get("gamma", 1.05070102214813232421875))
    y = e.emit(_elu(e, node, alpha, 1.0), "elu")
    return op.multiply(y, e.scalar(gamma, e.dtype(node.inputs[0])))


def _elu(e: RelaxWriter, node: OnnxNode, alpha: float, inner: float) -> RelaxExpr:
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    # the exponential sees non-positive values only, so that it cannot overflow
    low = e.emit(op.minimum(x, e.scalar(0, dtype)), "low")
    if inner != 1.0:
        low = e.emit(op.multiply(low, e.scalar(inner, dtype)), "inner")
    if dtype == "float64":
        grown = expm1(e, low)
    else:
        grown = e.emit(op.subtract(op.exp(low), e.scalar(1, dtype)), "grown")
    scaled = e.emit(op.multiply(grown, e.scalar(alpha, dtype)), "alpha")
    return op.add(op.maximum(x, e.scalar(0, dtype)), scaled)


@converts("ThresholdedRelu", attrs="alpha")
def thresholded_relu(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X where x > alpha, else 0."""
    x, dtype = e.value(node.inputs[0]), e.dtype(node.inputs[0])
    alpha = e.scalar(float(node.attrs.get("alpha", 1.0)), dtype)
    return op.where(op.greater(x, alpha), x, e.scalar(0, dtype))


@converts("Softmax", "LogSoftmax", attrs="axis")
def softmax(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Softmax over one axis; before opset 13 over all axes from ``axis`` on together."""
    name = node.inputs[0]
    x, shape = e.value(name), e.shape(name)
    function = op.nn.softmax if node.op == "Softmax" else op.nn.log_softmax
    axis = int(node.attrs.get("axis", -1 if node.opset >= 13 else 1))
    if not -len(shape) <= axis < max(len(shape), 1):
        raise node.error(f"axis={axis} is outside the rank of {shape}")
    axis %= len(shape)
    rest = [i for i in range(axis, len(shape)) if shape[i] != 1]
    if node.opset >= 13 or len(rest) <= 1:
        return function(x, axis if node.opset >= 13 or not rest else rest[0])
    outer = int(np.prod(shape[:axis]))
    flat = e.emit(op.reshape(x, (outer, int(np.prod(shape[axis:])))), "flat")
    return op.reshape(e.emit(function(flat, -1)), shape)
