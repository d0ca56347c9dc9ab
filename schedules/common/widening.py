"""Schedules copies of 8-bit data: as 16-bit integers, or with padding."""

from __future__ import annotations

from math import gcd

from tvmconv.algorithms.integer.complemented_copy import COMPLEMENTS
from tvmconv.algorithms.integer.dwords import WIDEN, copied_steps
from tvmconv.algorithms.integer.packed_pixels import PACK, dwords_of_block
from tvmconv.algorithms.integer.row_dwords import ROWS, piece_of_row
from tvmconv.algorithms.integer.saturation import MASKS
from tvmconv.algorithms.integer.wide_weights import WIDE
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tir.annotations import mark_cases, mark_first_use, mark_parallel, mark_stream
from tvmconv.tvm_api.types import LoopRV, Schedule

# elements of one load; a power of two, as channel blocks are
_ELEMENTS = 32
# dwords of a vector of positions (NEON), and of a vector of complements (AVX2)
_POSITIONS, _COMPLEMENTS = 4, 8


def schedule_widening(schedule: Schedule, workload: Conv2dWorkload) -> None:
    """Schedule the block of :func:`tvmconv.algorithms.integer.dwords.widened`.

    Threads share planes. Without padding, a load reads a piece of a row that is longer than a
    channel block. With padding, the border is separate code. A whole plane is not treated as one
    row: TVM would not see that a piece is contiguous, and would load single elements. That took a
    fifth of the time of a layer of 1024 channels of 14x14.
    """
    n, block, y, x, c = schedule.get_loops(schedule.get_sblock(WIDEN))
    plain = (workload.stride_h, workload.stride_w) == (1, 1) and not workload.has_padding
    if plain:
        row = schedule.fuse(x, c)
        _vectorize_pieces(schedule, row, _ELEMENTS)
        schedule.parallel(schedule.fuse(n, block, y))
        return
    schedule.vectorize(c)
    mark_parallel(schedule, n, block, y)
    mark_cases(schedule, y, x)


def schedule_complements(schedule: Schedule, workload: Conv2dWorkload) -> None:
    """Schedule :func:`tvmconv.algorithms.integer.complemented_copy.complemented_copy`, row by row.

    Each row is copied with its padding, position by position, and read from L1 for each complement.
    """
    block = schedule.get_sblock(COMPLEMENTS)
    n, mask, cb, y, x, part = schedule.get_loops(block)
    schedule.reorder(n, cb, y, mask, x, part)
    plain = schedule.get_sblock(WIDEN)
    schedule.compute_at(plain, y, preserve_unit_loops=True)
    *_, column, c = schedule.get_loops(plain)
    schedule.vectorize(c)
    _vectorize_pieces(schedule, schedule.fuse(x, part), _COMPLEMENTS)
    # not unrolled: steps address any complement by one index, which needs one buffer
    mark_parallel(schedule, n, cb, y)
    mark_cases(schedule, y, column)


def _vectorize_pieces(schedule: Schedule, row: LoopRV, most: int) -> None:
    """Vectorize pieces of a row, of a length that divides the row: ``most`` or a smaller power."""
    _, piece = schedule.split(row, [None, gcd(int(schedule.get(row).extent), most)])
    schedule.vectorize(piece)


def schedule_wide_weights(schedule: Schedule, at: LoopRV, *, by_first_tile: bool) -> None:
    """Schedule :func:`~tvmconv.algorithms.integer.wide_weights.wide_weights` for one group."""
    block = schedule.get_sblock(WIDE)
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, steps, _group, lane, element = schedule.get_loops(block)
    if by_first_tile:
        # on the stack up to a size: workspace takes 0.1 us for each group
        schedule.set_scope(block, 0, "local")
        mark_first_use(schedule, steps)
    schedule.vectorize(schedule.fuse(lane, element))


def schedule_joining(schedule: Schedule, workload: Conv2dWorkload) -> None:
    """Schedule the block of :func:`tvmconv.algorithms.integer.dwords.joined_dwords`.

    It interleaves vectors of two blocks' dwords of neighboring positions.
    """
    n, block, y, x, i = schedule.get_loops(schedule.get_sblock(WIDEN))
    outer = [n, block, y]
    if copied_steps(workload) != (1, 1):
        # strided positions are copied one by one
        schedule.unroll(i)
        mark_parallel(schedule, *outer)
        return
    if not workload.has_padding and int(schedule.get(x).extent) == workload.in_width:
        x = schedule.fuse(outer.pop(), x)
    pieces, piece = schedule.split(x, [None, _POSITIONS])
    schedule.reorder(pieces, i, piece)
    schedule.unroll(i)
    schedule.vectorize(piece)
    mark_parallel(schedule, *outer)
    mark_cases(schedule, *outer[2:], pieces)


def schedule_rows(schedule: Schedule, workload: Conv2dWorkload) -> None:
    """Schedule the block of :func:`tvmconv.algorithms.integer.row_dwords.padded_rows`.

    Pieces of rows are vectors. Pieces that only contain padding are separate code.
    """
    n, c, y, x = schedule.get_loops(schedule.get_sblock(ROWS))
    outer, piece = schedule.split(x, [None, piece_of_row(workload)])
    schedule.vectorize(piece)
    mark_parallel(schedule, n, c, y)
    mark_cases(schedule, y, outer)


def schedule_packed_tiles(
    schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config, at: LoopRV
) -> None:
    """Pack the tiles of a cache block: a vector is the dwords of a block, of a tile or a pixel."""
    block = schedule.get_sblock(PACK)
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, place = schedule.get_loops(block)
    dwords, pixels = dwords_of_block(machine), config.int("ow")
    variants = len(MASKS) * config.int("packed")
    mask, channel, pixel, dword = schedule.split(place, [variants, None, pixels, dwords])
    if (workload.stride_h, workload.stride_w) == (1, 1):
        schedule.reorder(channel, mask, pixel, dword)
        dword = schedule.fuse(pixel, dword)
        # each block of channels begins a line of its own, where hardware sees no stream
        mark_stream(schedule, channel, pixels * machine.channel_block)
    else:
        schedule.reorder(pixel, channel, mask, dword)
    schedule.unroll(mask)
    schedule.vectorize(dword)
