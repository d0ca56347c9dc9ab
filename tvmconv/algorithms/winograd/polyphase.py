"""Polyphase decomposition: strided convolution as a sum of dense ones with Winograd's tiles.

At stride ``s`` an output reads input rows ``s * y + k``. Taps ``k = s * t + a`` of one phase ``a``
are a dense kernel of ``ceil(R / s)`` taps on every ``s``-th row from ``a`` on. The convolution is
the sum of its phases, along columns and rows. All phases have the same tiles, so that their
products are added before the output transform, like products of input channels.

A phase may lack the last tap. Its filter is zero at infinity, the last point, whose products
contain only last taps. These products are omitted. F(4x4) of a 3x3 kernel with stride 2 then has 81
products, where the sum of taps has 144.

Pan and Chen, "Accelerate Non-unit Stride Convolutions with Winograd Algorithms" (2021), cut kernels
in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.core.workload import Conv2dWorkload


@dataclass(frozen=True)
class PhaseAxis:
    """The phases of one axis, with the taps and the stride of the whole kernel."""

    kernel: int
    stride: int

    @property
    def taps(self) -> int:
        """Taps of a phase; the last tap may be missing."""
        return -(-self.kernel // self.stride)

    @property
    def count(self) -> int:
        """Phases that have taps."""
        return min(self.kernel, self.stride)

    @property
    def whole(self) -> int:
        """Phases with all taps, which come first."""
        return self.kernel - (self.taps - 1) * self.count

    def products(self, outputs: int) -> int:
        """Products of a tile of so many outputs, summed over the phases."""
        return (outputs + self.taps - 2) * self.count + self.whole


def phases(workload: Conv2dWorkload) -> tuple[PhaseAxis, PhaseAxis]:
    """The phases down the columns and along the rows."""
    w = workload
    return PhaseAxis(w.kernel_h, w.stride_h), PhaseAxis(w.kernel_w, w.stride_w)


def phase_count(workload: Conv2dWorkload) -> int:
    """Number of dense convolutions; 1 at stride 1."""
    tall, wide = phases(workload)
    return tall.count * wide.count


def split_filter(weight: FloatArray, workload: Conv2dWorkload) -> FloatArray:
    """Filters ``(..., R, S)`` as ``(..., rows' phases, columns' phases, taps, taps)``.

    Missing taps of a phase are zero.
    """
    tall, wide = phases(workload)
    lead = weight.shape[:-2]
    padded = np.zeros((*lead, tall.taps * tall.count, wide.taps * wide.count), weight.dtype)
    padded[..., : tall.kernel, : wide.kernel] = weight
    split = padded.reshape(*lead, tall.taps, tall.count, wide.taps, wide.count)
    return np.moveaxis(split, (-3, -1), (-4, -3))
