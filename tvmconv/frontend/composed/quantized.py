"""Operators on integers of onnxruntime's operator set: weights of few bits, channels last."""

from __future__ import annotations

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.composed.attention_microsoft import self_attention
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.products import channels_first, channels_last
from tvmconv.frontend.operators import MICROSOFT
from tvmconv.frontend.tensors import unpacked_codes

_BYTES = "int8 uint8"


def product(p: Parts, a: str, b: str, zeros: tuple[str, str], scales: tuple[str, str]) -> str:
    """The product of two matrices of integers, as numbers."""
    found = p.cast(p.op("MatMulInteger", a, b, *zeros, main=True), p.dtype(scales[0]))
    # a scale for each column, or one
    factor = p.op("Mul", *(p.reshape(s, (-1,)) if len(p.shape(s)) > 1 else s for s in scales))
    return p.op("Mul", found, factor)


@composes(MICROSOFT, "MatMulIntegerToFloat", inputs=4, types=_BYTES)
def _matmul_integer_to_float(p: Parts) -> str:
    a, b, scale_a, scale_b, zero_a, zero_b, bias = (p.node.input(index) for index in range(7))
    y = product(p, a, b, (zero_a, zero_b), (scale_a, scale_b))
    return p.op("Add", y, bias) if bias else y


@composes(MICROSOFT, "DynamicQuantizeMatMul", inputs=3, types="float32")
def _dynamic_quantize_matmul(p: Parts) -> str:
    """A product of rows that are quantized when the model runs."""
    x, b, scale_b, zero_b, bias = (p.node.input(index) for index in range(5))
    data, scale, zero = p.many("DynamicQuantizeLinear", x, count=3)
    y = product(p, data, b, (zero, zero_b), (scale, scale_b))
    return p.op("Add", y, bias) if bias else y


@composes(
    MICROSOFT, "QAttention", inputs=5, types=_BYTES,
    attrs="do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional",
)  # fmt: skip
def _quantized_attention(p: Parts) -> list[str]:
    x, weight, bias, scale, weight_scale, mask, zero, weight_zero, past = (
        p.node.input(index) for index in range(9)
    )
    rows = product(p, x, weight, (zero, weight_zero), (scale, weight_scale))
    return self_attention(p, p.op("Add", rows, bias), mask, past, "")


@composes(
    MICROSOFT, "NhwcMaxPool", types=_BYTES,
    attrs="auto_pad ceil_mode dilations kernel_shape pads strides",
)  # fmt: skip
def _nhwc_max_pool(p: Parts) -> str:
    x = channels_first(p, p.node.inputs[0])
    return channels_last(p, p.op("MaxPool", x, main=True, **p.node.attrs))


@composes(MICROSOFT, "QLinearConv", inputs=8, types=_BYTES,
          attrs="auto_pad channels_last dilations group kernel_shape pads strides")  # fmt: skip
def _qlinear_conv(p: Parts) -> str:
    return _either_order(p)


@composes(
    MICROSOFT, "QLinearAveragePool", "QLinearGlobalAveragePool", inputs=4, types=_BYTES,
    attrs="auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides",
)  # fmt: skip
def _qlinear_pool(p: Parts) -> str:
    return _either_order(p)


def _either_order(p: Parts) -> str:
    """A quantized layer between changes of its channels' place, if they are last."""
    attrs = dict(p.node.attrs)
    last = p.flag("channels_last")
    attrs.pop("channels_last", None)
    x, *others = p.node.inputs
    if last:
        x = channels_first(p, x)
    y = p.op(p.node.op, x, *others, main=True, **attrs)
    return channels_last(p, y) if last else y


@composes(MICROSOFT, "MatMulNBits", attrs="K N accuracy_level bits block_size", inputs=3)
def _matmul_n_bits(p: Parts) -> str:
    """A product with a constant matrix whose columns are stored in blocks of few bits."""
    attrs = p.node.attrs
    depth, width, bits, block = (int(attrs.get(n, 0)) for n in ("K", "N", "bits", "block_size"))
    x, bias = p.node.inputs[0], p.node.input(5)
    if bits not in (2, 4, 8) or min(depth, width) < 1 or block < 16 or block & (block - 1):
        raise p.error(f"bits={bits}, block_size={block}, K={depth}, N={width} are not supported")
    if p.node.input(4):
        raise p.error("reordered blocks (g_idx) are not supported")
    blocks = -(-depth // block)
    data, scales = p.known(1, "weight"), p.known(2, "scales")
    size = block * bits // 8
    if data.dtype != np.uint8 or data.size != width * blocks * size:
        raise p.error(f"its weight of shape {data.shape} does not fit K={depth} and N={width}")
    if scales.size != width * blocks:
        raise p.error(f"its scales of shape {scales.shape} do not fit K={depth} and N={width}")
    p.check_memory(9 * width * blocks * block)
    numbers = unpacked_codes(data.reshape(width, blocks, size), bits).astype(np.float32)
    numbers -= _zero_points(p, width, blocks, bits)
    numbers *= scales.reshape(width, blocks, 1).astype(np.float32)
    matrix = np.ascontiguousarray(numbers.reshape(width, -1)[:, :depth].T)
    y = p.op("MatMul", x, p.constant(matrix.astype(numpy_type(p.dtype(x)))), main=True)
    return p.op("Add", y, bias) if bias else y


def _zero_points(p: Parts, width: int, blocks: int, bits: int) -> np.ndarray | np.float32:
    """The stored number of zero, for each block or for all."""
    if not p.node.input(3):
        return np.float32(1 << (bits - 1))
    zeros = p.known(3, "zero points")
    if zeros.dtype == np.uint8:
        stored = -(-blocks * bits // 8)
        if zeros.size != width * stored:
            raise p.error(f"its zero points of shape {zeros.shape} do not fit {blocks} blocks")
        zeros = unpacked_codes(zeros.reshape(width, stored), bits)[:, :blocks]
    if zeros.size != width * blocks:
        raise p.error(f"its zero points of shape {zeros.shape} do not fit {blocks} blocks")
    return zeros.reshape(width, blocks, 1).astype(np.float32)
