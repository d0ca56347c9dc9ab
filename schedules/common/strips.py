"""Winograd's transforms of one tile at a time, or of a strip of neighboring tiles.

With many products a tile, each product has a plane in memory. Code for a whole tile needs the
address of every plane, and LLVM keeps addresses that exceed the registers on the stack. Loops over
the tiles of a strip access one row or column of planes at a time, whose addresses fit registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.algorithms.winograd.polyphase import phase_count
from tvmconv.algorithms.winograd.tiles import Tiling, by_strips
from tvmconv.core.config import Config
from tvmconv.costs.cuts import divisors
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import transform_tile
from tvmconv.schedules.common.phases import phase_loops
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# intermediate values between two passes: a part of L1, and of the stack limit
_STRIP_BYTES = 8 * 1024
# beyond so many planes LLVM spills their addresses; by estimates strips gain nothing for F(4x4)
_FEW_PLANES = 36


def schedule_input(
    schedule: Schedule, region: LoopRV | None, machine: Machine, tiles: Tiling, config: Config
) -> tuple[BlockRV, tuple[LoopRV, ...]]:
    """Schedule the input transform; returns its block, and the loops over strips and columns."""
    strip: tuple[LoopRV, ...] = ()
    block = schedule.get_sblock("transform")
    p, cb, t, lane = schedule.get_loops(block)[-4:]
    *passes, cb = phase_loops(schedule, cb, tiles.workload)
    schedule.reorder(cb, *passes, t, p, lane)
    if region is None:
        schedule.parallel(cb)
    schedule.vectorize(lane)
    columns, patch = schedule.get_sblock("columns"), schedule.get_sblock("patch")
    if by_strips(tiles.workload, machine):
        row = config.int("rw") if config.int("fused") else tiles.columns
        _, t = schedule.split(t, [None, row])
        values = (row_bytes := machine.vector_bytes * tiles.vertical.n) * tiles.mw
        spare = _STRIP_BYTES - row_bytes * (tiles.horizontal.r - 1)
        part, t = schedule.split(t, [None, _tiles_of(row, spare // values)])
        if _many_planes(tiles, machine):
            rows, p = schedule.split(p, [None, tiles.horizontal.n])
            schedule.reorder(rows, t, p)
        transform_tile(schedule, columns, at=part, strip=True)
        strip = part, schedule.get_loops(columns)[-3]
    else:
        transform_tile(schedule, columns, at=t)
    schedule.unroll(p)
    transform_tile(schedule, patch, at=schedule.get_loops(columns)[-3])
    return block, strip


def output_loops(
    schedule: Schedule, machine: Machine, tiles: Tiling, row: int, loops: Sequence[LoopRV]
) -> tuple[LoopRV, list[LoopRV]]:
    """Split and unroll the loops of the output transform inside a row of tiles.

    The loops are over the ``row`` tiles of a row or of a part of it, and over the rows and columns
    of a tile. Returns the loop at which the previous pass is computed, and all loops,
    outermost first.
    """
    tw, i, j = loops
    schedule.unroll(j)
    if _many_planes(tiles, machine):
        values = machine.vector_bytes * tiles.mh * tiles.horizontal.n
        part, tw = schedule.split(tw, [None, _tiles_of(row, _STRIP_BYTES // values)])
        return part, [part, i, tw, j]
    passes = []
    if by_strips(tiles.workload, machine) and tiles.mh > 3:
        # rows of one parity share sums or differences of their operands
        i, first = schedule.split(i, [None, 2 if tiles.mh % 2 == 0 else tiles.mh])
        schedule.unroll(first)
        passes.append(first)
    schedule.unroll(i)
    return tw, [*passes, tw, i, j]


def schedule_rows(schedule: Schedule, machine: Machine, tiles: Tiling, at: LoopRV) -> None:
    """The output transform's first pass, at a loop of :func:`output_loops`."""
    block = schedule.get_sblock("rows")
    if not _many_planes(tiles, machine):
        transform_tile(schedule, block, at=at)
        return
    schedule.compute_at(block, at, preserve_unit_loops=True)
    schedule.set_scope(block, 0, "local")
    t, row, column, lane = schedule.get_loops(block)[-4:]
    schedule.reorder(column, t, row, lane)
    schedule.unroll(row)
    schedule.vectorize(lane)


def _many_planes(tiles: Tiling, machine: Machine) -> bool:
    """Whether the addresses of all planes exceed the registers."""
    w = tiles.workload
    strips = machine.code.transforms_strips and not w.types.is_integer
    return strips and phase_count(w) == 1 and tiles.products > _FEW_PLANES


def _tiles_of(row: int, most: int) -> int:
    """Tiles of a strip, at most ``most``: a divisor of the row's tiles."""
    return max(d for d in divisors(row) if d <= max(1, most))
