"""Scalar tensor expressions of the fused element-wise steps; all of them vectorize.

An activation with an exponential is one operator, which
:mod:`tvmconv.tir.general.activations` expands. Its expression has dozens of nodes, and a register
tile has many copies. Schedules and passes would visit all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.operators.math import at_least, between, literal
from tvmconv.operators.products import registered
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# operators of activations, of one FP32 number or vector; GATED multiplies its first operand by the
# sigmoid of its second
SIGMOID, TANH, NORMAL = "tvmconv.sigmoid", "tvmconv.tanh", "tvmconv.normal"
GATED = "tvmconv.gated"


def apply_step(
    value: Expr, step: EpilogueOp, bias: Expr | None = None, residual: Expr | None = None
) -> Expr:
    """One step; ``bias`` and ``residual`` are the scalars that such steps add."""
    kind, params = step.kind, step.params
    if kind == "bias":
        assert bias is not None
        return value + bias
    if kind == "add":
        assert residual is not None
        return value + residual
    if kind == "relu":
        return at_least(value, 0)
    if kind == "leakyrelu":
        return tirx.Select(value < literal(0, value), value * literal(params[0], value), value)
    if kind == "clip":
        return between(value, *params)
    if kind == "sigmoid":
        return _call(SIGMOID, value)
    if kind == "hardsigmoid":
        return between(value * literal(params[0], value) + literal(params[1], value), 0.0, 1.0)
    if kind == "hardswish":
        gate = between(value * literal(1.0 / 6.0, value) + literal(0.5, value), 0.0, 1.0)
        return value * gate
    if kind == "silu":
        return _call(GATED, value, value)
    if kind == "gelu":
        return value * _call(NORMAL, value)
    if kind == "gelutanh":
        cubic = literal(0.7978845608028654, value) + literal(0.035677408136, value) * value * value
        # 1 + tanh(z) is 2 sigmoid(2 z)
        return _call(GATED, value, literal(2.0, value) * value * cubic)
    return _call(TANH, value)


def _call(name: str, *values: Expr) -> Expr:
    return tirx.call_intrin("float32", registered(name), *values)


def apply_epilogue(
    value: Expr, steps: Iterable[EpilogueOp], bias: Expr | None = None, residual: Expr | None = None
) -> Expr:
    """All steps in order on one accumulator; see :func:`apply_step`.

    All expressions have the accumulator's type. Activation functions other than ReLU and clip need
    FP32.
    """
    for step in steps:
        value = apply_step(value, step, bias, residual)
    return value
