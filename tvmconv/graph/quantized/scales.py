"""Scales and zero points of ``quantize`` and ``dequantize`` nodes, and new nodes of these kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.graph.ir import Array, Node, Value, constant, make_node

# conversion between INT8 and UINT8 with a zero point that differs by 128
FLIP = "flip_highest_bit"
# an average of INT8 tensors with roundings at both ends
AVERAGE = "average"
# any function of an INT8 tensor, as a table of its values
TABLE = "lookup"
EIGHT_BITS = ("int8", "uint8")
# with smaller scales, products may lose digits and not divide back to the integer
_MIN_SCALE = 1e-30


@dataclass(frozen=True)
class Linear:
    """Parameters of integers that represent ``(integer - zero_point) * scale``.

    ``scale`` is a positive FP32 number, ``dtype`` is ``"int8"`` or ``"uint8"``.
    """

    scale: float
    zero_point: int
    dtype: str

    @property
    def limits(self) -> tuple[int, int]:
        """The minimum and the maximum integer."""
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def quantized(self, values: npt.ArrayLike) -> Array:
        """Integers from FP32 numbers, as by ONNX's QuantizeLinear."""
        with np.errstate(all="ignore"):
            quotient = np.asarray(values, np.float32) / np.float32(self.scale)
        low, high = self.limits
        rounded = np.rint(np.nan_to_num(quotient, nan=-np.inf, posinf=1e9, neginf=-1e9))
        return np.clip(rounded + self.zero_point, low, high).astype(self.dtype)

    def number(self, integer: int) -> float:
        """The FP32 number that one integer represents."""
        return float(np.float32(integer - self.zero_point) * np.float32(self.scale))

    def in_type(self, dtype: str) -> Linear:
        """The same numbers in another 8-bit type, in which the highest bit differs."""
        if dtype == self.dtype:
            return self
        shift = 128 if dtype == "uint8" else -128
        return Linear(self.scale, self.zero_point + shift, dtype)


def linear_of(node: Node | None, op: str = "") -> Linear | None:
    """The constant parameters of a node with one scale per tensor; None for any other node.

    ``op`` selects ``quantize`` or ``dequantize``; by default both.
    """
    if node is None or node.op not in ((op,) if op else ("quantize", "dequantize")):
        return None
    data, scale, zero_point = node.inputs
    dtype = data.dtype if node.op == "dequantize" else node.output.dtype
    real = node.output.dtype if node.op == "dequantize" else data.dtype
    if dtype not in EIGHT_BITS or real != "float32" or node.output.shape is None:
        return None
    if scale.data is None or zero_point.data is None or data.is_const:
        return None
    if scale.data.size != 1 or zero_point.data.size != 1:
        return None
    factor = float(np.float32(scale.data.reshape(-1)[0]))
    if not _MIN_SCALE < factor < 1 / _MIN_SCALE:
        return None
    return Linear(factor, int(zero_point.data.reshape(-1)[0]), dtype)


def known_integers(value: Value) -> QuantizedConstant | None:
    """The constant integers of a dequantized value; None for other values."""
    node = value.producer
    if node is None or node.op != "dequantize" or node.output.dtype != "float32":
        return None
    data, scale, zero_point = (argument.data for argument in node.inputs)
    if data is None or scale is None or zero_point is None:
        return None
    scale, zero_point = (p.reshape(()) if p.size == 1 else p for p in (scale, zero_point))
    axis = node.attrs["axis"] % max(data.ndim, 1)
    return QuantizedConstant(data, scale.astype(np.float32), zero_point.astype(np.int64), axis)


def dequantize_node(known: QuantizedConstant) -> Node:
    """A ``dequantize`` node of constants."""
    args = [known.data, known.scale, known.zero_point.astype(known.data.dtype)]
    values = [constant(array) for array in args]
    return make_node("dequantize", values, known.data.shape, attrs={"axis": known.axis})


class LinearNodes:
    """Makes nodes that share equal constants, so that equal nodes can be merged."""

    def __init__(self) -> None:
        self._constants: dict[Linear, tuple[Value, Value]] = {}

    def _parameters(self, linear: Linear) -> list[Value]:
        if linear not in self._constants:
            scale = constant(np.array(linear.scale, np.float32))
            self._constants[linear] = scale, constant(np.array(linear.zero_point, linear.dtype))
        return list(self._constants[linear])

    def quantize(self, source: Value, linear: Linear, layer: str = "") -> Node:
        """A node that rounds numbers to integers."""
        return self._made("quantize", source, linear, linear.dtype, layer)

    def dequantize(self, source: Value, linear: Linear, layer: str = "") -> Node:
        """A node that makes numbers of integers."""
        return self._made("dequantize", source, linear, "float32", layer)

    def _made(self, op: str, source: Value, linear: Linear, dtype: str, layer: str) -> Node:
        args, attrs = [source, *self._parameters(linear)], {"axis": 0}
        return make_node(op, args, source.dims, dtype=dtype, layer=layer, attrs=attrs)
