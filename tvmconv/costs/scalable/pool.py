"""The cost model of pooling by scalable vectors, compared with NEON code."""

from __future__ import annotations

from tvmconv.costs.scalable import constants
from tvmconv.machines.record import Machine

# rows of a tile, and registers for their sums and taps
_MOST_ROWS = 4


def scalable_rows(window: tuple[int, ...], is_max: bool, rows: int, machine: Machine) -> int:
    """Rows of a tile whose windows share what they read, of ``rows`` output rows; 0: NEON code.

    ``window`` has kernel rows and columns, their strides, and whether rows and columns meet the
    padding. NEON code loads each tap. Scalable code gathers positions with a stride, or with
    clamped columns. It has no rows in common if each row tests its own taps.
    """
    kernel_h, kernel_w, stride_h, stride_w, rows_padded, columns_padded = window
    shared = 1
    if stride_h < kernel_h and (is_max or not rows_padded):
        shared = next(count for count in range(_MOST_ROWS, 0, -1) if rows % count == 0)
    reads = kernel_w * ((shared - 1) * stride_h + kernel_h) / shared
    gathers = stride_w > 1 or (is_max and columns_padded)
    each = constants.POOL_GATHER if gathers else 1 / (machine.load_ports * machine.segments)
    neon = kernel_h * kernel_w / machine.load_ports
    return shared if reads * each < neon else 0
