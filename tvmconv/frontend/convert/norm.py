"""Normalizations whose statistics are computed at run time, and related operators."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.evaluate import trains
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("BatchNormalization", attrs="epsilon is_test momentum spatial training_mode", inputs=5)
def batch_norm(e: RelaxWriter, node: OnnxNode) -> RelaxExpr | list[RelaxExpr]:
    """Training, or inference with parameters that are not constants; others were folded before.

    :mod:`tvmconv.frontend.affine` has refused ``spatial=0``, and training before operator set 7.
    """
    shape = e.shape(node.inputs[0])
    if trains(node):
        return _batch_statistics(e, node, shape)
    column = (1, shape[1], *[1] * (len(shape) - 2))
    dtype = e.dtype(node.inputs[0])
    scale, shift, mean, variance = (
        e.emit(op.reshape(op.astype(e.value(name), dtype), column), "parameter")
        for name in node.inputs[1:5]
    )
    epsilon = e.scalar(float(node.attrs.get("epsilon", 1e-5)), dtype)
    factor = e.emit(op.divide(scale, op.sqrt(op.add(variance, epsilon))), "factor")
    centered = e.emit(op.subtract(e.value(node.inputs[0]), mean), "centred")
    return op.add(op.multiply(centered, factor), shift)


def _batch_statistics(e: RelaxWriter, node: OnnxNode, shape: tuple[int, ...]) -> list[RelaxExpr]:
    """Normalize each channel by its mean and variance in the batch, and move the running ones.

    The batch's variance is divided by the number of its values. Operator sets before 14
    also give the batch's own mean and variance.
    """
    axes = [axis for axis in range(len(shape)) if axis != 1]
    normal, mean, variance = _standardized(e, node, e.value(node.inputs[0]), axes)
    column = (1, shape[1], *[1] * (len(shape) - 2))
    y = e.emit(_scale_shift(e, node, normal, column))
    results, momentum = [y], float(node.attrs.get("momentum", 0.9))
    own = [mean, variance, mean, variance]
    for place, (name, value) in enumerate(zip(node.outputs[1:], own, strict=False)):
        if not name:
            results.append(y)
            continue
        dtype = e.dtype(name)
        flat = e.emit(op.astype(op.reshape(value, (shape[1],)), dtype), "statistic")
        if place < 2:
            old = e.emit(op.astype(e.value(node.inputs[3 + place]), dtype), "running")
            kept = e.emit(op.multiply(old, e.scalar(momentum, dtype)), "kept")
            flat = op.add(kept, op.multiply(flat, e.scalar(1 - momentum, dtype)))
        results.append(flat)
    return results


@converts("InstanceNormalization", attrs="epsilon", inputs=3)
def instance_norm(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Normalize each plane of each image."""
    shape = e.shape(node.inputs[0])
    normal, *_ = _standardized(e, node, e.value(node.inputs[0]), list(range(2, len(shape))))
    column = (1, shape[1], *[1] * (len(shape) - 2))
    return _scale_shift(e, node, normal, column)


@converts("LayerNormalization", attrs="axis epsilon stash_type", inputs=2)
def layer_norm(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """Normalize over all axes from ``axis`` on; also returns mean and 1 / deviation."""
    shape = e.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", -1)) % len(shape)
    axes = list(range(axis, len(shape)))
    mean, centered, _, deviation = _statistics(e, node, e.value(node.inputs[0]), axes)
    y = e.emit(op.multiply(op.divide(centered, deviation), e.value(node.inputs[1])), "scaled")
    results = [op.add(y, e.value(node.inputs[2])) if node.input(2) else y]
    if len(node.outputs) > 1:
        one = e.scalar(1, "float64" if e.dtype(node.inputs[0]) == "float64" else "float32")
        statistics = [mean, op.divide(one, deviation)]
        # the type of the statistics is stash_type; data in float64 have a longer one
        results += [
            op.astype(e.emit(value, "statistic"), e.dtype(name)) if name else value
            for value, name in zip(statistics, node.outputs[1:], strict=False)
        ]
    return results


@converts("GroupNormalization", attrs="epsilon num_groups stash_type", inputs=3)
def group_norm(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Normalize groups of channels; parameters are per channel, before opset 21 per group."""
    shape = e.shape(node.inputs[0])
    groups = int(node.attrs["num_groups"])
    if groups < 1 or shape[1] % groups:
        raise node.error(f"num_groups={groups} does not divide {shape[1]}")
    grouped = e.emit(
        op.reshape(e.value(node.inputs[0]), (shape[0], groups, shape[1] // groups, *shape[2:])),
        "groups",
    )
    axes = list(range(2, len(shape) + 1))
    normal, *_ = _standardized(e, node, grouped, axes)
    if node.opset < 21:
        scaled = e.emit(_scale_shift(e, node, normal, (1, groups, *[1] * (len(shape) - 1))), "own")
        return op.reshape(scaled, shape)
    return _scale_shift(e, node, op.reshape(normal, shape), (1, shape[1], *[1] * (len(shape) - 2)))


def _standardized(
    e: RelaxWriter, node: OnnxNode, x: RelaxExpr, axes: list[int]
) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """(x - mean) / sqrt(variance + epsilon) over the axes, the mean and the variance."""
    mean, centered, variance, deviation = _statistics(e, node, x, axes)
    return e.emit(op.divide(centered, deviation), "normal"), mean, variance


def _statistics(
    e: RelaxWriter, node: OnnxNode, x: RelaxExpr, axes: list[int]
) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr, RelaxExpr]:
    """Mean, x - mean, variance and sqrt(variance + epsilon), the variance in two passes."""
    dtype = e.dtype(node.inputs[0])
    mean = e.emit(op.mean(x, axes, keepdims=True), "mean")
    centered = e.emit(op.subtract(x, mean), "centred")
    variance = e.emit(op.mean(op.multiply(centered, centered), axes, keepdims=True), "variance")
    epsilon = e.scalar(float(node.attrs.get("epsilon", 1e-5)), dtype)
    return mean, centered, variance, e.emit(op.sqrt(op.add(variance, epsilon)), "deviation")


def _scale_shift(
    e: RelaxWriter, node: OnnxNode, x: RelaxExpr, column: tuple[int, ...]
) -> RelaxExpr:
    dtype = e.dtype(node.inputs[0])
    scale, shift = (
        e.emit(op.reshape(op.astype(e.value(name), dtype), column), "parameter")
        for name in node.inputs[1:3]
    )
    return op.add(op.multiply(x, scale), shift)


@converts("LRN", attrs="alpha beta bias size")
def local_response(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X / (bias + alpha / size * sum of squares over adjacent channels) ** beta.

    The sum over a window of channels is an average pooling over the channel axis, times the
    window's size, with zeros counted beyond the ends.
    """
    name = node.inputs[0]
    shape = e.shape(name)
    size = int(node.attrs["size"])
    if size < 1 or len(shape) < 3:
        raise node.error(f"size={size} or rank {len(shape)} is too small")
    alpha, beta = float(node.attrs.get("alpha", 1e-4)), float(node.attrs.get("beta", 0.75))
    x = e.value(name)
    plane = (shape[0], 1, shape[1], int(np.prod(shape[2:])))
    squares = e.emit(op.reshape(op.multiply(x, x), plane), "squares")
    low = (size - 1) // 2
    mean = e.emit(
        op.nn.avg_pool2d(
            squares, (size, 1), (1, 1), (low, 0, size - 1 - low, 0), count_include_pad=True
        )
    )
    dtype = e.dtype(name)
    scaled = e.emit(op.multiply(op.reshape(mean, shape), e.scalar(alpha, dtype)), "scaled")
    base = e.emit(op.add(scaled, e.scalar(float(node.attrs.get("bias", 1.0)), dtype)), "base")
    return op.divide(x, op.power(base, e.scalar(beta, dtype)))


@converts("LpNormalization", attrs="axis p")
def lp_norm(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """X / norm of x along an axis."""
    x = e.value(node.inputs[0])
    axis = int(node.attrs.get("axis", -1))
    p = int(node.attrs.get("p", 2))
    if p not in (1, 2):
        raise node.error(f"p={p} is not supported", "use 1 or 2")
    if p == 1:
        norm = op.sum(op.abs(x), [axis], keepdims=True)
    else:
        norm = op.sqrt(op.sum(op.multiply(x, x), [axis], keepdims=True))
    norm = e.emit(norm, "norm")
    dtype = e.dtype(node.inputs[0])
    # a zero vector stays zero
    safe = op.where(op.equal(norm, e.scalar(0, dtype)), e.scalar(1, dtype), norm)
    return op.divide(x, e.emit(safe, "safe"))


@converts("MeanVarianceNormalization", attrs="axes")
def mean_variance(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Less the mean over axes, divided by the deviation."""
    shape = e.shape(node.inputs[0])
    axes = [int(axis) % len(shape) for axis in node.ints("axes", (0, 2, 3))]
    dtype = e.dtype(node.inputs[0])
    mean = e.emit(op.mean(e.value(node.inputs[0]), axes, keepdims=True), "mean")
    centered = e.emit(op.subtract(e.value(node.inputs[0]), mean), "centered")
    squares = e.emit(op.multiply(centered, centered), "squares")
    variance = e.emit(op.mean(squares, axes, keepdims=True), "variance")
    # the addend of ONNX's definition, for constant data
    deviation = e.emit(op.add(op.sqrt(variance), e.scalar(1e-9, dtype)), "deviation")
    return op.divide(centered, deviation)
