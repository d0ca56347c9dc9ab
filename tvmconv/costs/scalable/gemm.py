"""The register tile of packed products by scalable vectors, and the blocks around it."""

from __future__ import annotations

from math import ceil

from tvmconv.core.config import Config
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.costs.cpu import gemm as gemm_blocks
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.scalable import constants
from tvmconv.machines.record import Machine

# vectors of columns of a tile
MOST_VECTORS = 4
# rows and vectors of default tiles: FTEngine's, and the tallest tile of two vectors
_TILES = ((8, 2), (10, 2), (12, 2))
# unrolled steps, so that rows are whole vectors of A
_UNROLLED = 2


def tile_registers(rows: int, vectors: int, machine: Machine) -> int:
    """Accumulators, a step's vectors of columns, and the rows of A, four in a vector."""
    return rows * vectors + vectors + ceil(rows / machine.lanes)


def default_config(workload: GemmWorkload, machine: Machine, prepacked: bool = False) -> Config:
    """The tile that fills up the fewest rows, or NEON code.

    NEON code is for columns that are not whole segments, for integers, and for products smaller
    than a vector.
    """
    w, lanes = workload, machine.lanes
    has_segments = w.n % lanes == 0 and 1 < machine.segments <= w.n // lanes
    if w.types.is_integer or min(w.m, w.k) < lanes or not has_segments:
        fixed = gemm_blocks.default_config(workload, machine, prepacked)
        return Config.of(**fixed, vectors=0)
    rows, vectors = min(_TILES, key=lambda tile: (_cycles(w, machine, *tile), tile))
    rows = min(rows, ceil(w.m / lanes) * lanes)
    tile = Microkernel(machine, rows, vectors * machine.segments)
    blocked = gemm_blocks.blocked(w, machine, tile)
    own = {"nr": lanes, "unroll": _UNROLLED, "ahead": 0, "fetch": 0, "tasks": 1}
    return Config.of(**blocked.replace(**own, prepacked=prepacked), vectors=vectors)


def _cycles(workload: GemmWorkload, machine: Machine, rows: int, vectors: int) -> float:
    """Cycles of all tiles, filled up."""
    w = workload
    sums = rows * vectors
    step = sums / (machine.rates.multiply_adds * machine.vector.rate)
    tile = w.k * step + constants.GEMM_TILE + constants.GEMM_STORE * sums
    return ceil(w.m / rows) * ceil(w.n / (machine.lanes * machine.segments * vectors)) * tile
