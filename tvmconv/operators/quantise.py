"""Quantization to integers and back, element by element, for any layout.

ONNX defines QuantizeLinear and DequantizeLinear (operator sets 10 to 25) as ``saturate(round(x /
scale) + zero point)`` and ``(x - zero point) * scale``. The division is a true FP32 division, and
rounding is to nearest even. Infinities saturate. NaN becomes the type's smallest integer, as in
onnxruntime; ONNX leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.operators.math import COUNTS_IN_ONES, bind
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

# (index along each axis that the parameter varies along) -> the value; a tensor, for example
Parameter = Callable[..., Expr]
LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
}

# the bits of COUNTS_IN_ONES as an integer
_ONES_BITS = 0x4B400000


def quantise(
    data: Tensor, scale: Parameter, zero_point: Parameter, dtype: str, axes: Sequence[int] = ()
) -> Tensor:
    """Quantize real numbers to integers.

    ``data`` are float32 of any shape, and ``dtype`` is one of :data:`LIMITS`. ``scale`` in FP32 and
    ``zero_point`` in ``dtype`` are tensors with an axis for each of ``axes``, or functions of as
    many indices. ``axes`` are the data's axes along which they vary: ``(1,)`` for the channels of
    NCHW, ``(1, 4)`` for the channels of ``(N, C/c, H, W, c)`` with parameters ``(C/c, c)``.
    """

    def element(*index: Expr) -> Expr:
        place = [index[axis] for axis in axes]
        return quantised(data[index], scale(*place), zero_point(*place), dtype)

    return te.compute(data.shape, element, name="quantised")


def dequantise(
    data: Tensor, scale: Parameter, zero_point: Parameter, axes: Sequence[int] = ()
) -> Tensor:
    """Dequantize integers to real numbers in FP32; parameters as for :func:`quantise`."""

    def element(*index: Expr) -> Expr:
        place = [index[axis] for axis in axes]
        return dequantised(data[index], scale(*place), zero_point(*place))

    return te.compute(data.shape, element, name="dequantised")


def quantised(x: Expr, scale: Expr, zero_point: Expr, dtype: str) -> Expr:
    """One integer; ``zero_point`` is of type ``dtype``.

    The quotient is first limited to integer bounds, which does not change the rounded result. Then
    a constant is added whose last bit has the value 1. The addition rounds to nearest even and
    leaves the integer in the low bits. TVM would round lane by lane.
    """
    zero = zero_point.astype("int32")
    low, high = ((tirx.const(end, "int32") - zero).astype("float32") for end in LIMITS[dtype])
    # not a maximum, for which TVM would let NaN pass
    above = bind(x / scale, lambda v: tirx.Select(v > low, v, low))
    bits = tirx.reinterpret("int32", tirx.min(above, high) + tirx.const(COUNTS_IN_ONES, "float32"))
    return (bits + (zero - tirx.const(_ONES_BITS, "int32"))).astype(dtype)


def dequantised(x: Expr, scale: Expr, zero_point: Expr) -> Expr:
    """One real number; ``zero_point`` is of the type of ``x``, and 0 for int32."""
    centered = x.astype("int32")
    if not (isinstance(zero_point, tirx.IntImm) and int(zero_point.value) == 0):
        centered = centered - zero_point.astype("int32")
    return centered.astype("float32") * scale
