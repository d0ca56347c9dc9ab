"""Strided convolution as a sum of dense ones, which Winograd's tiles compute together.

At stride ``s`` an output reads input rows ``s * y + k``: taps ``k = s * t + a`` of one phase ``a``
are a dense kernel of ``ceil(R / s)`` taps on every ``s``-th row from ``a`` on, and the convolution
is the sum of its phases, down the columns and along the rows. All phases have the same tiles, so
that their products are added up before the output transform, as those of input channels are.

A phase may lack the last tap. Its filter is zero at infinity, the last point, whose products are
those of the last taps alone: they are left out. F(4x4) of a 3x3 kernel with stride 2 then makes 81
products, where the sum of taps makes 144.

Pan and Chen, "Accelerate Non-unit Stride Convolutions with Winograd Algorithms" (2021), cut kernels
in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.core.workload import Conv2dWorkload


@dataclass(frozen=True)
class Axis:
    """The phases of one axis.

    Parameters
    ----------
    kernel, stride
        Taps, and the distance of the inputs of neighbouring outputs.
    """

    kernel: int
    stride: int

    @property
    def taps(self) -> int:
        """Those of a phase, the last of which may be missing."""
        return -(-self.kernel // self.stride)

    @property
    def count(self) -> int:
        """Phases that have taps."""
        return min(self.kernel, self.stride)

    @property
    def whole(self) -> int:
        """Phases with all taps: they are the first."""
        return self.kernel - (self.taps - 1) * self.count

    def products(self, outputs: int) -> int:
        """Products of a tile of so many outputs, summed over the phases."""
        return (outputs + self.taps - 2) * self.count + self.whole


def phases(workload: Conv2dWorkload) -> tuple[Axis, Axis]:
    """Those down the columns, and those along the rows."""
    w = workload
    return Axis(w.kernel_h, w.stride_h), Axis(w.kernel_w, w.stride_w)


def phase_count(workload: Conv2dWorkload) -> int:
    """How many dense convolutions there are; 1 at stride 1."""
    tall, wide = phases(workload)
    return tall.count * wide.count


def split_filter(weight: FloatArray, workload: Conv2dWorkload) -> FloatArray:
    """Filters of the phases, zero where they lack taps.

    Parameters
    ----------
    weight
        ``(..., R, S)``.
    workload
        The convolution.

    Returns
    -------
    FloatArray
        ``(..., rows' phases, columns' phases, taps, taps)``.
    """
    tall, wide = phases(workload)
    lead = weight.shape[:-2]
    padded = np.zeros((*lead, tall.taps * tall.count, wide.taps * wide.count), weight.dtype)
    padded[..., : tall.kernel, : wide.kernel] = weight
    split = padded.reshape(*lead, tall.taps, tall.count, wide.taps, wide.count)
    return np.moveaxis(split, (-3, -1), (-4, -3))
