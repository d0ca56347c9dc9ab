"""Bands and blocks of rows: splitting a layer for threads and caches."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.costs.cpu.partition import Partition, best, spans
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import LoopRV, Schedule


def row_bands(pieces: int, tiles: int, cores: int, fewest: int = 2) -> int:
    """Bands of rows to cut an image into, so that every core gets at least four pieces of work.

    There are ``pieces`` of work without bands, and ``tiles`` rows of tiles in the image. A band
    keeps at least ``fewest`` of them.
    """
    if cores == 1 or pieces >= 4 * cores:
        return 1
    return min(max(1, tiles // fewest), -(-4 * cores // pieces))


def cache_block(schedule: Schedule, tiles: LoopRV, config: Config) -> tuple[LoopRV, LoopRV]:
    """Split a loop over tile rows (or tiles) into cache blocks."""
    count = int(schedule.get(tiles).extent)
    outer, inner = schedule.split(tiles, [None, min(config.int("rows"), count) or count])
    return outer, inner


def bands_outside(
    schedule: Schedule,
    blocks: LoopRV,
    rows: LoopRV,
    machine: Machine,
    row_bytes: int,
    *,
    overlap: bool,
) -> tuple[LoopRV, ...]:
    """Make bands of rows the outer loop of a memory-bound operator on each channel of one image.

    ``row_bytes`` are the bytes that the operator reads for one row of one block. ``overlap`` is
    whether it reads rows for several results. Returns the loops over bands, blocks and rows, or
    the two loops unchanged where bands do not pay.
    """
    extent, count = (int(schedule.get(loop).extent) for loop in (rows, blocks))
    moved = row_bytes * extent * count
    partitions = [Partition(machine, 1, extent, count, span) for span in spans(machine, extent)]
    cycles = moved / machine.rates.l2
    chosen = best(partitions, cycles, moved, 0, channelwise=True, overlap=overlap)
    if chosen.bands == 1:
        return blocks, rows
    band, rows = schedule.split(rows, [None, chosen.span])
    schedule.reorder(band, blocks, rows)
    return band, blocks, rows
