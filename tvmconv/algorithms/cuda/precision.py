"""The precisions of tensor cores: how values are rounded, and packed into dwords of registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.tvm_api.types import Expr

# pixels of a layer's output whose error is measured
_PIXELS = 128
Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Precision:
    """One precision to which operands are rounded; accumulators are FP32.

    ``name`` is what users give. Operands in shared memory are dwords of type ``dword`` with
    ``values`` values each, neighbors of the reduction. ``significant_bits`` of an operand's
    significand include the leading bit. An operand beyond ``largest`` becomes infinite.
    """

    name: str
    dword: str
    values: int
    significant_bits: int
    largest: float

    def round(self, values: Array) -> Array:
        """Values as the kernel rounds them, to nearest, as FP32."""
        if self.values == 1:
            return round_tf32(values)
        return _round_fp16(values).astype(np.float32)

    def measured_error(self, weight: Array, groups: int) -> float:
        """max|error| / max|reference| of sums whose operands are rounded, against FP64.

        ``weight`` is ``(K, C / groups, R, S)`` of one layer. Its input is seeded and normally
        distributed.
        """
        rows = weight.reshape(groups, weight.shape[0] // groups, -1).astype(np.float32)
        shape = (groups, rows.shape[2], _PIXELS)
        columns = np.random.default_rng(0).standard_normal(shape, np.float32)
        exact = rows.astype(np.float64) @ columns.astype(np.float64)
        rounded = self.round(rows).astype(np.float64) @ self.round(columns).astype(np.float64)
        return float(np.abs(rounded - exact).max() / max(np.abs(exact).max(), 1e-300))

    def beyond(self, weight: float) -> str:
        """Why weights of this magnitude become infinite, as a clause; empty if they do not."""
        if weight <= self.largest:
            return ""
        return (
            f"a weight of {weight:.3g} would be infinite, as {self.name} ends at {self.largest:.5g}"
        )

    def dwords(self, values: Array) -> npt.NDArray[np.float32] | npt.NDArray[np.uint32]:
        """Values packed along the last axis, whose length :attr:`values` divides."""
        if self.values == 1:
            return round_tf32(values)
        return np.ascontiguousarray(_round_fp16(values)).view(np.uint32)

    def dword_of(self, read: list[Expr]) -> Expr:
        """The dword of a kernel for FP32 values, as many as a dword has."""
        from tvmconv.tvm_api import tirx

        name = "tvmconv_tf32" if self.values == 1 else "tvmconv_halves"
        return tirx.call_pure_extern(self.dword, name, *read)

    def product(self, weights: Expr, columns: Expr) -> Expr:
        """The product of two dwords; ``mma.sync`` replaces it before code generation."""
        from tvmconv.tvm_api import tirx

        if self.values == 1:
            return weights * columns
        return tirx.call_pure_extern("float32", "tvmconv_dot", weights, columns)


def largest_finite(values: npt.NDArray[Any]) -> float:
    """The largest absolute value that is neither infinite nor NaN; 0 if there is none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def round_tf32(values: Array) -> Array:
    """Round to 10 fractional bits, ties away from zero, as ``cvt.rna.tf32.f32`` does.

    Infinities and NaN stay. Values that round beyond the largest float become infinite.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


def _round_fp16(values: Array) -> npt.NDArray[np.float16]:
    """Round to nearest, ties to even, as ``cvt.rn`` does; infinite beyond the largest FP16."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("tf32", "float32", 1, 11, float(np.finfo(np.float32).max)),
        Precision("fp16", "uint32", 2, 11, float(np.finfo(np.float16).max)),
    )
}
