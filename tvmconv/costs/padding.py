"""The share of a convolution's work on its padding."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload


def rows_inside(workload: Conv2dWorkload) -> float:
    """The share of all pairs of an output row and a kernel row that read a row of the input.

    Direct kernels skip the others: 2 of 21 for 7 rows and a kernel of 3 with padding 1.
    """
    w = workload
    inside = sum(
        0 <= row * w.stride_h + tap * w.dilation_h - w.pad_top < w.in_height
        for row in range(w.out_height)
        for tap in range(w.kernel_h)
    )
    return inside / (w.out_height * w.kernel_h)
