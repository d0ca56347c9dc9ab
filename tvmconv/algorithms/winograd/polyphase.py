"""Strided and long kernels as sums of short dense ones with Winograd's tiles.

At stride ``s`` an output reads input rows ``s * y + k``. Taps ``k = s * t + a`` of one phase ``a``
are a dense kernel of ``ceil(R / s)`` taps on every ``s``-th row from ``a`` on. The convolution is
the sum of its phases, along columns and rows. All phases have the same tiles, so that their
products are added before the output transform, like products of input channels.

A phase may lack the last tap. Its filter is zero at infinity, the last point, whose products
contain only last taps. These products are omitted. F(4x4) of a 3x3 kernel with stride 2 then has 81
products, where the sum of taps has 144.

Tiles have at most seven taps. An axis with more taps is cut into parts of three neighboring taps.
Each part reads the rows where the one before ends, and is otherwise treated as a phase is. F(4x4)
of a 9x9 kernel then has 324 products, where the sum of taps has 1296.

Pan and Chen, "Accelerate Non-unit Stride Convolutions with Winograd Algorithms" (2021), cut kernels
in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.winograd.matrices import MOST_PRODUCTS
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tvm_api.types import Expr

Position = TypeVar("Position", int, Expr)


# taps of each part: F(4, 3) has the largest tile whose rounding is within the default error budget
_PART = 3
# more taps leave no tile of two outputs
_MOST_TAPS = MOST_PRODUCTS - 1


@dataclass(frozen=True)
class PhaseAxis:
    """The phases of one axis, with the taps and the stride of the whole kernel.

    Phases with more than ``most`` taps are cut into parts of three taps, which count as phases.
    """

    kernel: int
    stride: int
    most: int = _MOST_TAPS

    @property
    def is_cut(self) -> bool:
        """Whether phases are cut into parts."""
        return self._longest > self.most

    @property
    def _longest(self) -> int:
        return -(-self.kernel // self.stride)

    @property
    def taps(self) -> int:
        """Taps of a phase; the last taps may be missing."""
        return _PART if self.is_cut else self._longest

    @property
    def count(self) -> int:
        """Phases that have taps."""
        full, rest = divmod(self.kernel, self.stride * self.taps)
        return full * self.stride + min(rest, self.stride)

    @property
    def whole(self) -> int:
        """Phases with all taps, which come first."""
        full, rest = divmod(self.kernel, self.stride * self.taps)
        return full * self.stride + max(0, rest - self.stride * (self.taps - 1))

    def first(self, phase: Position) -> Position:
        """The kernel's row or column where a phase begins."""
        if not self.is_cut:
            return phase
        return phase % self.stride + phase // self.stride * (self.stride * self.taps)

    def products(self, outputs: int) -> int:
        """Products of a tile of so many outputs, summed over the phases."""
        return (outputs + self.taps - 2) * self.count + self.whole

    def split(self, weight: FloatArray) -> FloatArray:
        """Filters ``(..., R)`` as ``(..., phases, taps)``; missing taps are zero."""
        lead, length = weight.shape[:-1], self.stride * self.taps
        parts = -(-self.kernel // length)
        padded = np.zeros((*lead, parts * length), weight.dtype)
        padded[..., : self.kernel] = weight
        split = padded.reshape(*lead, parts, self.taps, self.stride).swapaxes(-1, -2)
        return split.reshape(*lead, parts * self.stride, self.taps)[..., : self.count, :]


def phases(workload: Conv2dWorkload) -> tuple[PhaseAxis, PhaseAxis]:
    """The phases down the columns and along the rows; INT8 kernels are not cut into parts."""
    w = workload
    tall, wide = PhaseAxis(w.kernel_h, w.stride_h), PhaseAxis(w.kernel_w, w.stride_w)
    if w.types.is_integer:
        return replace(tall, most=w.kernel_h), replace(wide, most=w.kernel_w)
    return tall, wide


def phase_count(workload: Conv2dWorkload) -> int:
    """Number of short dense convolutions; 1 at stride 1 of kernels that are not cut."""
    tall, wide = phases(workload)
    return tall.count * wide.count


def split_filter(weight: FloatArray, workload: Conv2dWorkload) -> FloatArray:
    """Filters ``(..., R, S)`` as ``(..., rows' phases, columns' phases, taps, taps)``.

    Missing taps of a phase are zero.
    """
    tall, wide = phases(workload)
    # (..., R, columns' phases, taps), then the same for the rows
    columns = np.moveaxis(wide.split(weight), -3, -1)
    return np.moveaxis(tall.split(columns), -2, -4).swapaxes(-1, -2)
