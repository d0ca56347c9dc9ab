"""The cost model of pooling by scalable vectors, compared with NEON code."""

from __future__ import annotations

from tvmconv.costs.scalable import constants
from tvmconv.machines.record import Machine

# rows of a tile; columns up to which LLVM unrolls NEON's rows, whose windows then share loads
_MOST_ROWS, _UNROLLED_ROW = 4, 16


def scalable_rows(
    window: tuple[int, ...], is_max: bool, size: tuple[int, int], machine: Machine
) -> int:
    """Rows of a tile whose windows share their reads; 0: NEON code.

    ``window`` has kernel rows and columns, their strides, and whether rows and columns meet the
    padding. ``size`` is the output's rows and columns. NEON code loads each tap, in short rows once
    for all windows. Scalable code gathers positions with a stride, or with clamped columns. It
    shares nothing if each row tests its own taps. Averages with padding on both sides of a row have
    a divisor for each lane, which took twice as long as NEON code by estimates.
    """
    kernel_h, kernel_w, stride_h, stride_w, rows_padded, columns_padded = window
    if columns_padded and not is_max:
        return 0
    rows, columns = size
    shared = 1
    if stride_h < kernel_h and (is_max or not rows_padded):
        shared = next(count for count in range(_MOST_ROWS, 0, -1) if rows % count == 0)
    reads = kernel_w * ((shared - 1) * stride_h + kernel_h) / shared
    gathers = stride_w > 1 or (is_max and columns_padded)
    each = constants.POOL_GATHER if gathers else 1 / (machine.load_ports * machine.segments)
    own = min(kernel_w, stride_w) if columns <= _UNROLLED_ROW else kernel_w
    neon = kernel_h * own / machine.load_ports
    return shared if reads * each < neon else 0
