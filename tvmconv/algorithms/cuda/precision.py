"""The precisions of tensor cores: how values are rounded, and packed into words of registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.tvm_api.types import Expr

# of a layer's output, those whose error is measured
_PIXELS = 128
Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Precision:
    """One precision: operands of products are rounded to it, sums are float32.

    Parameters
    ----------
    name
        What users give.
    word
        Type of the 32-bit words in which operands lie in shared memory.
    values
        Values of a word, neighbours of the reduction.
    significant_bits
        Of an operand, the leading one included.
    largest
        Beyond it an operand becomes infinity.
    """

    name: str
    word: str
    values: int
    significant_bits: int
    largest: float

    def round(self, values: Array) -> Array:
        """Values as the kernel rounds them, to nearest: as float32."""
        if self.values == 1:
            return round_tf32(values)
        return _halves(values).astype(np.float32)

    def measured_error(self, weight: Array, groups: int) -> float:
        """max|error| / max|reference| of sums whose operands are rounded, against float64.

        Parameters
        ----------
        weight
            ``(K, C / groups, R, S)`` of one layer; its input is seeded and normally distributed.
        groups
            Of the convolution.
        """
        rows = weight.reshape(groups, weight.shape[0] // groups, -1).astype(np.float32)
        shape = (groups, rows.shape[2], _PIXELS)
        columns = np.random.default_rng(0).standard_normal(shape, np.float32)
        exact = rows.astype(np.float64) @ columns.astype(np.float64)
        rounded = self.round(rows).astype(np.float64) @ self.round(columns).astype(np.float64)
        return float(np.abs(rounded - exact).max() / max(np.abs(exact).max(), 1e-300))

    def beyond(self, weight: float) -> str:
        """Why weights up to this size cannot be rounded to it, as a clause; empty if they can."""
        if weight <= self.largest:
            return ""
        return (
            f"a weight of {weight:.3g} would be infinite, as {self.name} ends at {self.largest:.5g}"
        )

    def words(self, values: Array) -> npt.NDArray[np.float32] | npt.NDArray[np.uint32]:
        """Values packed along the last axis, whose length :attr:`values` divides."""
        if self.values == 1:
            return round_tf32(values)
        return np.ascontiguousarray(_halves(values)).view(np.uint32)

    def word_of(self, read: list[Expr]) -> Expr:
        """The word of a kernel for float32 values, as many as a word has."""
        from tvmconv.tvm_api import tirx

        name = "tvmconv_tf32" if self.values == 1 else "tvmconv_halves"
        return tirx.call_pure_extern(self.word, name, *read)

    def product(self, weights: Expr, columns: Expr) -> Expr:
        """What the product of two words adds to a sum: never printed, ``mma.sync`` stands there."""
        from tvmconv.tvm_api import tirx

        if self.values == 1:
            return weights * columns
        return tirx.call_pure_extern("float32", "tvmconv_dot", weights, columns)


def largest_finite(values: npt.NDArray[Any]) -> float:
    """The largest absolute value that is neither infinite nor NaN; 0 of none."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def round_tf32(values: Array) -> Array:
    """To 10 bits behind the point, halves away from zero, as ``cvt.rna.tf32.f32`` does.

    Infinities and NaN stay; what would round beyond the largest float becomes infinity.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


def _halves(values: Array) -> npt.NDArray[np.float16]:
    """To nearest, halves to even, as ``cvt.rn`` does; infinity beyond the largest half."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("tf32", "float32", 1, 11, float(np.finfo(np.float32).max)),
        Precision("fp16", "uint32", 2, 11, float(np.finfo(np.float16).max)),
    )
}
