"""Activation functions of ONNX's recurrent operators, as scalar expressions that vectorize."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvmconv.operators import math
from tvmconv.operators.math import constant
from tvmconv.operators.recurrent_form import Activation
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

_Function = Callable[[Expr, Activation], Expr]


def activated(x: Expr, activation: Activation) -> Expr:
    """The activation of an FP32 expression, which is computed once."""
    return math.bind(x, lambda x: FUNCTIONS[activation.name](x, activation), "gate")


def _sigmoid(x: Expr, _: Activation) -> Expr:
    # states are sums and products with numbers near 1: only the absolute error counts, and this
    # takes fewer instructions than 1 / (1 + e**-x)
    half = constant(0.5)
    return math.rational_tanh(x * half) * half + half


def _leaky(x: Expr, of: Activation) -> Expr:
    return tirx.Select(x < constant(0.0), x * constant(of.alpha), x)


def _thresholded(x: Expr, of: Activation) -> Expr:
    # onnxruntime takes the threshold itself as below it, and so does the operator ThresholdedRelu
    return tirx.Select(x > constant(of.alpha), x, constant(0.0))


def _elu(x: Expr, of: Activation) -> Expr:
    below = (math.exp(x) - constant(1.0)) * constant(of.alpha)
    return tirx.Select(x < constant(0.0), below, x)


def _hard_sigmoid(x: Expr, of: Activation) -> Expr:
    return math.between(x * constant(of.alpha) + constant(of.beta), 0.0, 1.0)


def _softplus(x: Expr, _: Activation) -> Expr:
    # e**x overflows early
    tail = math.log(constant(1.0) + math.exp(constant(0.0) - tirx.abs(x)))
    return math.at_least(x, 0.0) + tail


FUNCTIONS: Mapping[str, _Function] = {
    "affine": lambda x, of: x * constant(of.alpha) + constant(of.beta),
    "elu": _elu,
    "hardsigmoid": _hard_sigmoid,
    "leakyrelu": _leaky,
    "relu": lambda x, _: math.at_least(x, 0.0),
    "scaledtanh": lambda x, of: math.rational_tanh(x * constant(of.beta)) * constant(of.alpha),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softsign": lambda x, _: x / (constant(1.0) + tirx.abs(x)),
    "tanh": lambda x, _: math.rational_tanh(x),
    "thresholdedrelu": _thresholded,
}
