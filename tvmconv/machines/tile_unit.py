"""The AMX unit of a CPU, and its feature names."""

from __future__ import annotations

from dataclasses import dataclass

# names in /proc/cpuinfo: only AMX kernels contain these instructions
TILE_FEATURES = ("amx_tile", "amx_int8")
# names for LLVM, which gets them for any CPU name
TILE_ATTRIBUTES = ("+amx-tile", "+amx-int8")


@dataclass(frozen=True)
class TileUnit:
    """A unit that multiplies INT8 matrices in tile registers, such as Intel's AMX.

    One instruction multiplies a tile of data by a tile of weights, and adds to a tile of 32-bit
    accumulators. A tile of data has one row of bytes for each position.

    A tile has at most ``rows`` rows: positions, accumulators, and dwords of weights. A row has
    ``row_bytes`` bytes: the channels that one instruction reduces. In a cycle, ``rows_a_cycle``
    rows of data are multiplied by a whole tile of weights.
    """

    registers: int
    rows: int
    row_bytes: int
    rows_a_cycle: float
