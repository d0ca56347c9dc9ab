"""Scalar tensor expressions of the fused element-wise steps; all of them vectorise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import tirx

from tvmconv.operators.math import at_least, between, constant, inline_sigmoid, inline_tanh
from tvmconv.workload import EpilogueOp


def apply_step(value: Any, step: EpilogueOp, bias: Any = None, residual: Any = None) -> Any:
    """One step; ``bias`` and ``residual`` are the scalars that such steps add."""
    kind, params = step.kind, step.params
    if kind == "bias":
        return value + bias
    if kind == "add":
        return value + residual
    if kind == "relu":
        return at_least(value, 0.0)
    if kind == "leakyrelu":
        return tirx.Select(value < constant(0.0), value * constant(params[0]), value)
    if kind == "clip":
        return between(value, *params)
    if kind == "sigmoid":
        return inline_sigmoid(value)
    if kind == "hardsigmoid":
        return between(value * constant(params[0]) + constant(params[1]), 0.0, 1.0)
    if kind == "hardswish":
        gate = between(value * constant(1.0 / 6.0) + constant(0.5), 0.0, 1.0)
        return value * gate
    if kind == "silu":
        return value * inline_sigmoid(value)
    return inline_tanh(value)


def apply_epilogue(
    value: Any, steps: Iterable[EpilogueOp], bias: Any = None, residual: Any = None
) -> Any:
    """All steps in order on one accumulator.

    Parameters
    ----------
    value
        float32 scalar expression.
    steps
        The workload's epilogue.
    bias, residual
        float32 scalar expressions; needed where a step is ``bias`` or ``add``.
    """
    for step in steps:
        value = apply_step(value, step, bias, residual)
    return value
