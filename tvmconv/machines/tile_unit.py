"""The unit of a processor that multiplies matrices of bytes, and what it is called."""

from __future__ import annotations

from dataclasses import dataclass

# in /proc/cpuinfo: code of tiles alone contains their instructions
TILE_FEATURES = ("amx_tile", "amx_int8")
# to LLVM, which is told of them whatever the processor's name is
TILE_ATTRIBUTES = ("+amx-tile", "+amx-int8")


@dataclass(frozen=True)
class TileUnit:
    """A unit that multiplies matrices of bytes in registers of its own, as Intel's AMX does.

    One instruction multiplies a tile of pixels, a row of bytes for each, by a tile of weights, and
    adds to a tile of 32-bit sums.

    Parameters
    ----------
    registers
        Tiles that are held.
    rows
        Most rows of a tile: pixels, sums of them, and words of weights.
    row_bytes
        Bytes of a row: of all channels that one instruction sums over.
    rows_a_cycle
        Rows of pixels that are multiplied in a cycle by a whole tile of weights.
    """

    registers: int
    rows: int
    row_bytes: int
    rows_a_cycle: float
