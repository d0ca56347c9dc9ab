"""Operators of onnxruntime that only its GPU builds compute, by their definitions in NumPy."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv import _conv_implementation

_ERF = np.vectorize(erf, otypes=[float])


class _Foreign(OpRun):
    op_domain = "com.microsoft"


class BiasAdd(_Foreign):
    """X + bias + skip."""

    def _run(self, x: Any, bias: Any, skip: Any) -> tuple[Any]:
        return (x + bias + skip,)


class BiasSplitGelu(_Foreign):
    """The first channels times the Gelu of the other ones."""

    def _run(self, x: Any, bias: Any) -> tuple[Any]:
        left, right = np.split((x + bias).astype(float), 2, axis=-1)
        gelu = right * 0.5 * (1 + _ERF(right / np.sqrt(2)))
        return ((left * gelu).astype(x.dtype),)


class GroupNorm(_Foreign):
    """Each group of channels, which are last, has mean zero and variance one before the scale."""

    def _run(
        self, x: Any, scale: Any, shift: Any, activation: Any = None, channels_last: Any = None,
        epsilon: Any = None, groups: Any = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        return (_normalized(x, scale, shift, groups, activation, epsilon),)


class SkipGroupNorm(_Foreign):
    """GroupNorm of a sum, and that sum."""

    def _run(
        self, x: Any, scale: Any, shift: Any, skip: Any, bias: Any = None, activation: Any = None,
        channels_last: Any = None, epsilon: Any = None, groups: Any = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        total = x + (skip if skip.ndim == x.ndim else skip[:, None, None])
        total = total if bias is None else total + bias
        return _normalized(total, scale, shift, groups, activation, epsilon), total


def _normalized(
    x: Any, scale: Any, shift: Any, groups: int, activation: int | None, epsilon: float | None
) -> Any:
    rows = x.astype(float).reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean, variance = rows.mean((1, 3), keepdims=True), rows.var((1, 3), keepdims=True)
    y = ((rows - mean) / np.sqrt(variance + (epsilon or 1e-5))).reshape(x.shape) * scale + shift
    return (y / (1 + np.exp(-y)) if activation else y).astype(x.dtype)


class NhwcConv(_Foreign):
    """A convolution of images whose channels are last."""

    def _run(self, x: Any, weight: Any, bias: Any = None, **attrs: Any) -> tuple[Any]:
        y = _convolved(x, weight, bias, **attrs)
        return (np.moveaxis(y, 1, -1),)


class NhwcFusedConv(_Foreign):
    """The same, plus a tensor, and with an activation."""

    def _run(
        self, x: Any, weight: Any, bias: Any = None, added: Any = None, activation: Any = None,
        **attrs: Any,
    ) -> tuple[Any]:  # fmt: skip
        y = np.moveaxis(_convolved(x, weight, bias, **attrs), 1, -1)
        y = y if added is None else y + added
        return (np.maximum(y, 0) if activation == "Relu" else y,)


def _convolved(
    x: Any, weight: Any, bias: Any, pads: Any = None, strides: Any = None, group: Any = None
) -> Any:
    kernel = weight.shape[2:]
    return _conv_implementation(
        np.moveaxis(x, -1, 1), weight, bias, "NOTSET", [1, 1], group or 1, list(kernel),
        list(pads or [0] * 4), list(strides or [1, 1]),
    )  # fmt: skip


REFERENCES = (BiasAdd, BiasSplitGelu, GroupNorm, NhwcConv, NhwcFusedConv, SkipGroupNorm)
