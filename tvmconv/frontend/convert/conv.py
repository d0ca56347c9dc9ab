"""Convolution and transposed convolution."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from tvmconv.frontend.convert.depth_slices import conv_of_slices
from tvmconv.frontend.convert.transposed import transposed_product, transposed_volume
from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts, dequantized
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.frontend.windows import Window, conv_transpose_window, conv_window
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

Kernel = Array | QuantizedConstant | RelaxExpr
WINDOW = "auto_pad dilations group kernel_shape pads strides"


@converts("Conv", attrs=WINDOW, inputs=2)
def conv(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Conv of one to three spatial dimensions; one dimension runs as a row of a 2-D one."""
    data, weight, bias = _operands(e, node)
    window = conv_window(node, e.shape(data), e.shape(weight), bias)
    rank = len(window.kernel)
    if 0 in e.shape(data):
        return _of_nothing(e, node, rank)
    x = e.value(data)
    if rank == 3 and _is_run_time(e, weight):
        return _finish(e, node, conv_of_slices(e, x, e.value(weight), window), rank)
    if rank == 1:
        x, w, window = as_row(e, x, _kernel(e, weight), window)
    else:
        w = e.value(weight)
    call = relax.op.nn.conv3d if rank == 3 else relax.op.nn.conv2d
    y = e.emit(
        call(
            x, w, strides=window.strides, padding=window.padding, dilation=window.dilations,
            groups=window.groups,
        )
    )  # fmt: skip
    return _finish(e, node, y, rank)


@converts("ConvTranspose", attrs=f"{WINDOW} output_padding output_shape", inputs=2)
def conv_transpose(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """ConvTranspose of one to three spatial dimensions.

    A constant dilated kernel is stored with its zeros, because TVM's transposed convolution
    requires dilation 1.
    """
    data, weight, bias = _operands(e, node)
    window = conv_transpose_window(node, e.shape(data), e.shape(weight), bias)
    rank = len(window.kernel)
    if 0 in e.shape(data):
        return _of_nothing(e, node, rank)
    x = e.value(data)
    kernel = e.array(weight)
    if kernel is not None and not np.isfinite(kernel).all():
        # zeros between the input's elements times infinite weights would be NaN
        raise node.error(
            f"weight {weight!r} has values that are not finite", "correct or retrain the model"
        )
    run_time = _is_run_time(e, weight)
    if max(window.dilations) > 1 and not run_time:
        kernel = e.constant(node, 1, "weight")
        spans = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
        e.reserve(node, prod((*kernel.shape[:2], *spans)) * kernel.itemsize)
        spread = np.zeros((*kernel.shape[:2], *spans), kernel.dtype)
        steps = tuple(slice(None, None, d) for d in window.dilations)
        spread[(slice(None), slice(None), *steps)] = kernel
        weight = e.graph.add_constant(f"{weight}.dilated", spread)
    if run_time and rank < 3 and bias and _tiles(e.shape(data)[2:], window):
        # each output is one product, which adds the bias while it is in registers
        operands = (
            as_row(e, x, _kernel(e, weight), window) if rank == 1 else (x, e.value(weight), window)
        )
        y = transposed_product(e, *operands, _bias(e, node, rank))
        return relax.op.squeeze(y, 2) if rank == 1 else y
    layer = transposed_product if run_time else _transposed
    if run_time and rank == 3:
        y = transposed_volume(e, x, e.value(weight), window, partial(layer, e))
    elif rank == 1:
        y = layer(e, *as_row(e, x, _kernel(e, weight), window))
    else:
        y = layer(e, x, e.value(weight), window)
    return _finish(e, node, y, rank)


def _transposed(e: RelaxWriter, x: RelaxExpr, w: RelaxExpr, window: Window) -> RelaxExpr:
    """A transposed convolution of images or volumes, without dilation."""
    end, added, fill = zip(
        *map(_end_of_output, window.end, window.output_padding, window.strides), strict=True
    )
    volume = len(window.kernel) == 3
    call = relax.op.nn.conv3d_transpose if volume else relax.op.nn.conv2d_transpose
    y = e.emit(
        call(
            x, w, strides=window.strides, padding=window.begin + end, output_padding=added,
            groups=window.groups,
        )
    )  # fmt: skip
    if any(fill):
        sides = [side for size in fill for side in (0, size)]
        y = e.emit(relax.op.nn.pad(y, [0, 0, 0, 0, *sides]), "fill")
    return y


def _tiles(size: tuple[int, ...], window: Window) -> bool:
    """Whether each output of a transposed convolution belongs to exactly one input."""
    axes = zip(size, window.kernel, window.strides, window.begin, window.output, strict=True)
    fits = all(k == s and begin + out <= n * s for n, k, s, begin, out in axes)
    return fits and max(window.dilations) == 1


def _end_of_output(end: int, added: int, stride: int) -> tuple[int, int, int]:
    """End padding, output padding and zeros to append, for an axis' given two paddings.

    Output padding first cancels end padding, then adds rows that no kernel element reaches. Relax
    requires it to be smaller than the stride, so further rows are appended.
    """
    shared = min(end, added)
    inside = min(added - shared, stride - 1)
    return end - shared, inside, added - shared - inside


def _operands(e: RelaxWriter, node: OnnxNode) -> tuple[str, str, tuple[int, ...] | None]:
    bias = node.input(2)
    return node.inputs[0], node.inputs[1], e.shape(bias) if bias else None


def _is_run_time(e: RelaxWriter, weight: str) -> bool:
    return e.array(weight) is None and weight not in e.quantized


def _kernel(e: RelaxWriter, weight: str) -> Kernel:
    """A weight as an array or a quantized constant if possible."""
    kernel = e.array(weight)
    return kernel if kernel is not None else e.quantized.get(weight) or e.value(weight)


def as_row(
    e: RelaxWriter, x: RelaxExpr, kernel: Kernel, window: Window
) -> tuple[RelaxExpr, RelaxExpr, Window]:
    """Data, weight and window of a 1-D convolution for one row of an image."""
    if isinstance(kernel, np.ndarray):
        w = constant(kernel[:, :, None])
    elif isinstance(kernel, QuantizedConstant):
        k, c, r = kernel.data.shape
        # the channels' axis is 0 for a convolution's weight, 1 for a transposed convolution's
        w = e.emit(dequantized(kernel.reshaped((k, c, 1, r), kernel.axis)), "weight")
    else:
        w = e.emit(relax.op.expand_dims(kernel, 2), "weight")
    return e.emit(relax.op.expand_dims(x, 2), "row"), w, window.as_row()


def _of_nothing(e: RelaxWriter, node: OnnxNode, rank: int) -> RelaxExpr:
    """The bias, for data without elements."""
    batch, channels, *plane = e.shape(node.outputs[0])
    size = (1, *plane) if rank == 1 else tuple(plane)
    zeros = relax.op.zeros((batch, channels, *size), e.dtype(node.outputs[0]))
    return _finish(e, node, e.emit(zeros, "zeros"), rank)


def _finish(e: RelaxWriter, node: OnnxNode, y: RelaxExpr, rank: int) -> RelaxExpr:
    if node.input(2):
        y = e.emit(relax.op.add(y, _bias(e, node, rank)), "biased")
    return relax.op.squeeze(y, 2) if rank == 1 else y


def _bias(e: RelaxWriter, node: OnnxNode, rank: int) -> RelaxExpr:
    """The bias of a node, with axes for the batch and the image."""
    bias = node.inputs[2]
    shape = (1, e.shape(bias)[0], *[1] * max(rank, 2))
    values, quantized = e.array(bias), e.quantized.get(bias)
    if quantized is not None:
        return e.emit(dequantized(quantized.reshaped(shape, 1)), "bias")
    if values is None:
        return e.emit(relax.op.reshape(e.value(bias), shape), "bias")
    return constant(values.reshape(shape))
