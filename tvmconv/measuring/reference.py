"""A convolution with its epilogue in float64, the reference of every layer measurement."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, pi, sqrt

import numpy as np
import numpy.typing as npt

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.pool_workload import PoolWorkload
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload

Exact = npt.NDArray[np.float64]


def convolution(
    workload: Conv2dWorkload,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    dtype: str = "float64",
) -> Exact:
    """The exact output of a workload, NCHW; 3-D convolutions have its ``data_shape`` and so on.

    ``inputs`` are ``data`` (N, C, H, W), and ``residual`` of the output's shape. ``constants`` are
    ``weight`` (K, C/groups, R, S), and ``bias`` (K,). ``dtype`` is the type of sums and result;
    ``int64`` for integers without an epilogue.
    """
    w = workload
    if w.is_matrix:
        matrix = constants["weight"].astype(dtype).reshape(w.out_channels, w.in_channels)
        sums = inputs["data"].astype(dtype).reshape(w.batch, w.in_channels) @ matrix.T
        bias = _optional(constants, "bias").reshape(-1, 1, 1)
        result = sums.reshape(w.result_shape)
        return _with_epilogue(w, result, bias, _optional(inputs, "residual"))
    pads = ((w.pad_front, w.pad_back), (0, 0), (w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right))
    volumes = inputs["data"].astype(dtype).reshape(w.batch, w.in_depth, *w.data_shape[1:])
    data = np.pad(volumes, ((0, 0), *pads))
    data = data.reshape(w.batch, -1, w.groups, w.in_channels // w.groups, *data.shape[3:])
    weight = constants["weight"].astype(dtype)
    weight = weight.reshape(w.groups, -1, *weight.shape[1:])
    rows, columns = w.out_height, w.out_width
    total = np.zeros((w.batch, w.out_depth, w.groups, weight.shape[1], rows * columns), dtype)
    for t, r, s in np.ndindex(w.kernel_d, w.kernel_h, w.kernel_w):
        front, top, left = t * w.dilation_d, r * w.dilation_h, s * w.dilation_w
        taken = data[
            :,
            front : front + (w.out_depth - 1) * w.stride_d + 1 : w.stride_d,
            ...,
            top : top + (rows - 1) * w.stride_h + 1 : w.stride_h,
            left : left + (columns - 1) * w.stride_w + 1 : w.stride_w,
        ]
        # one matrix product for each kernel element: (K/g, C/g) by (C/g, pixels)
        tap = weight[..., t * w.kernel_h + r, s]
        total += tap @ taken.reshape(*taken.shape[:4], -1)
    bias = _optional(constants, "bias").reshape(-1, 1, 1)
    return _with_epilogue(w, total.reshape(w.result_shape), bias, _optional(inputs, "residual"))


def drawn_places(
    workload: Conv2dWorkload, count: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Places of an output, as numbers of its values: corners of planes, and random ones."""
    w = workload
    size = int(np.prod(w.result_shape))
    area = w.out_height * w.out_width
    planes = np.array([0, size // area // 2, size // area - 1])[:, None] * area
    corners = np.array([0, w.out_width - 1, area - w.out_width, area - 1])
    drawn = generator.integers(0, size, count)
    return np.unique(np.concatenate([(planes + corners).reshape(-1), drawn])).astype(np.int64)


def convolution_at(
    workload: Conv2dWorkload,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    places: npt.NDArray[np.int64],
) -> Exact:
    """The values of :func:`convolution` at some places of a 2-D output."""
    w = workload
    n, k, oh, ow = np.unravel_index(places, w.result_shape)
    each = w.in_channels // w.groups
    first = k // (w.out_channels // w.groups) * each
    channels = first[:, None] + np.arange(each)
    data, weight = inputs["data"], constants["weight"].astype(np.float64)
    sums = np.zeros(len(places))
    for r, s in np.ndindex(w.kernel_h, w.kernel_w):
        row = oh * w.stride_h - w.pad_top + r * w.dilation_h
        column = ow * w.stride_w - w.pad_left + s * w.dilation_w
        inside = (row >= 0) & (row < w.in_height) & (column >= 0) & (column < w.in_width)
        row, column = row.clip(0, w.in_height - 1), column.clip(0, w.in_width - 1)
        taken = data[n[:, None], channels, row[:, None], column[:, None]].astype(np.float64)
        sums += np.where(inside, (taken * weight[k, :, r, s]).sum(1), 0.0)
    bias = _optional(constants, "bias")[k if w.has("bias") else ...]
    residual = _optional(inputs, "residual").reshape(-1)[places if w.has("add") else ...]
    return _with_epilogue(w, sums, bias, residual)


def pooled(workload: PoolWorkload, data: Array) -> Exact:
    """The output of a pooling layer, NCHW."""
    w = workload
    mean = w.operator == "AveragePool"
    sides = ((0, 0), (0, 0), (w.pad_h, w.pad_h), (w.pad_w, w.pad_w))
    padded = np.pad(data, sides, constant_values=0 if mean else -np.inf)
    inside = np.pad(np.ones(data.shape[2:]), sides[2:])
    result = np.full(w.result_shape, 0.0 if mean else -np.inf)
    counts = np.zeros(w.result_shape[2:])
    for r, s in np.ndindex(w.kernel_h, w.kernel_w):
        rows = slice(r, r + (w.out_height - 1) * w.stride_h + 1, w.stride_h)
        columns = slice(s, s + (w.out_width - 1) * w.stride_w + 1, w.stride_w)
        (np.add if mean else np.maximum)(result, padded[..., rows, columns], out=result)
        counts += inside[rows, columns]
    return result / counts if mean else result


def _optional(arrays: Mapping[str, Array], name: str) -> Exact:
    return arrays[name].astype(np.float64) if name in arrays else np.zeros(1)


def _with_epilogue(workload: Conv2dWorkload, x: Exact, bias: Exact, residual: Exact) -> Exact:
    for step in workload.epilogue:
        match step.kind:
            case "bias":
                x = x + bias
            case "add":
                x = x + residual
            case _:
                x = apply_activation(step, x)
    return x


def apply_activation(step: EpilogueOp, x: Exact) -> Exact:
    """A step of one operand, in float64."""
    match step.kind:
        case "relu":
            return x.clip(0)
        case "leakyrelu":
            return x.clip(0) + step.params[0] * x.clip(None, 0)
        case "clip":
            return x.clip(step.params[0], step.params[1])
        case "sigmoid":
            return _sigmoid(x)
        case "hardsigmoid":
            alpha, beta = step.params
            return (x * alpha + beta).clip(0, 1)
        case "hardswish":
            gate: Exact = (x / 6 + 0.5).clip(0, 1)
            return x * gate
        case "silu":
            return x * _sigmoid(x)
        case "gelu":
            curve: Exact = np.vectorize(erf, otypes=[np.float64])(x * sqrt(0.5))
            return x * (0.5 + 0.5 * curve)
        case "gelutanh":
            return x * _sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3))
        case "tanh":
            return 2 * _sigmoid(2 * x) - 1
    raise ValueError(f"epilogue step {step} has no reference")


def _sigmoid(x: Exact) -> Exact:
    # exp of a negative number only: no overflow at either end
    small = np.exp(-np.abs(x))
    result: Exact = np.where(x >= 0, 1, small) / (1 + small)
    return result
