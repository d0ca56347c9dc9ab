"""A block's tile of a GEMM: how slices reach shared memory, and how accumulators are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.block_tile import BlockTile
from tvmconv.costs.cuda.blocks import tile_of
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tir.annotations import mark_copy_by_registers, mark_pipeline, mark_rolled
from tvmconv.tvm_api.types import BlockRV, Expr, Index, LoopRV, Schedule

_VECTOR = 4
# loops over a thread's pieces, and over a piece
_PIECE_LOOPS = 4
# threads of the kernel that adds up split parts
_ADDING = 256


def stored_sums(schedule: Schedule, workload: Conv2dWorkload, split: int) -> BlockRV:
    """The block that stores a thread's accumulators; positions of all images are one loop of it.

    ``schedule`` is of an expression of
    :class:`~tvmconv.algorithms.cuda.implicit_gemm.ImplicitGemm`. With a ``split`` above 1, parts
    are stored to the workspace, and a second kernel adds them up.
    """
    from tvmconv.tvm_api.tirx import IndexMap

    area = workload.out_height * workload.out_width
    schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    output = schedule.get_sblock("output")
    if split > 1:
        add_parts(schedule, output, area)
        return schedule.cache_write(schedule.get_sblock("conv2d"), 0, "local")
    pixels = IndexMap.from_func(lambda n, g, m, q: (g, m, n * area + q), index_dtype="int32")
    schedule.transform_block_layout(output, pixels)
    return output


def tiled_product(
    schedule: Schedule,
    workload: Conv2dWorkload,
    config: Config,
    columns: BlockRV,
    slices: int,
    *,
    lanes: int,
) -> None:
    """Schedule the GEMM of an expression of ``ImplicitGemm``.

    1. Thread blocks: parts of a split reduction, groups, tiles of positions, tiles of channels.
    2. Slices of the reduction: weights and columns are copied to shared memory. With double
       buffering, the next slice is loaded to registers while this one is multiplied, and then
       stored to the other buffer.
    3. Warps next to each other, and their threads, with interleaved pieces of accumulators.

    ``config`` has the parameters ``split`` and ``pipeline``, and parameters of :func:`tile_of`.
    ``columns`` is the block that copies a slice of columns to shared memory, and a thread of it
    reads ``lanes`` positions at once. ``slices`` counts the slices of the whole reduction.
    """
    tile, split = tile_of(config), config.int("split")
    area = workload.out_height * workload.out_width
    stored = stored_sums(schedule, workload, split)
    vector = tile.splits_p[-1] == _VECTOR and (split > 1 or area % _VECTOR == 0)
    sums = schedule.get_sblock("conv2d")
    sums, part, value = deal_tile(schedule, sums, stored, tile, vector=vector)
    pipeline = str(config["pipeline"]) if slices > split else "none"
    copy_pipeline(schedule, sums, columns, tile, part, value, lanes=lanes, pipeline=pipeline)


def deal_tile(
    schedule: Schedule, sums: BlockRV, stored: BlockRV, tile: BlockTile, *, vector: bool
) -> tuple[BlockRV, LoopRV, LoopRV]:
    """Distribute rows and columns of a GEMM over blocks, warps and threads, and store the results.

    ``sums`` is the GEMM: any loops, rows, columns, slices, and elements of a slice. ``stored``
    reads the accumulators; a thread runs it at the end. ``vector`` tells whether it writes vectors
    of columns. Returns the block of a thread's accumulators, and its loops of slices and elements.
    """
    if tile.share > 1:
        return _deal_shared(schedule, sums, stored, tile, vector=vector)
    *others, m, p, part, value = schedule.get_loops(sums)
    bm, wm, vm, lm, im = schedule.split(m, [None, *tile.splits_m])
    bp, wp, vp, lp, ip = schedule.split(p, [None, *tile.splits_p])
    schedule.reorder(*others, bp, bm, vm, vp, wm, wp, lm, lp, part, value, im, ip)
    schedule.bind(schedule.fuse(*others, bp, bm), "blockIdx.x")
    schedule.bind(vm, "vthread.y")
    schedule.bind(vp, "vthread.x")
    thread = schedule.fuse(wm, wp, lm, lp)
    schedule.bind(thread, "threadIdx.x")
    schedule.set_scope(sums, 0, "local")
    schedule.reverse_compute_at(stored, thread, preserve_unit_loops=True)
    *_, row, column = schedule.get_loops(stored)
    schedule.unroll(row)
    (schedule.vectorize if vector else schedule.unroll)(column)
    return sums, part, value


def _deal_shared(
    schedule: Schedule, sums: BlockRV, stored: BlockRV, tile: BlockTile, *, vector: bool
) -> tuple[BlockRV, LoopRV, LoopRV]:
    """:func:`deal_tile` for warps that share accumulators.

    Each warp adds its part of a slice's elements. All threads add the partial sums in shared memory
    and store them. A thread's pieces are separate axes, not ``vthread``: TVM would repeat for each
    ``vthread`` everything that follows in the block.
    """
    share, _ = schedule.split(schedule.get_loops(sums)[-1], [tile.share, None])
    own = schedule.rfactor(share, 0)
    exchanged = schedule.cache_write(own, 0, "local")
    schedule.set_scope(exchanged, 0, "shared")
    *others, share, value = schedule.get_loops(own)
    schedule.reorder(share, *others, value)
    rows, columns = _piece_sizes(tile)
    # after all axes of the accumulators but two come rows and columns, then slices and elements
    first = len(others) - 3
    apart = _apart(first + 2, {first: rows, first + 1: columns})
    schedule.transform_block_layout(exchanged, apart)
    schedule.transform_block_layout(own, _apart(first + 4, {first: rows, first + 1: columns}))
    schedule.transform_layout(own, ("write", 0), apart)
    share, *others, m, row, p, column, part, value = schedule.get_loops(own)
    bm, wm, vm = schedule.split(m, [None, *tile.splits_m[:2]])
    bp, wp, vp = schedule.split(p, [None, *tile.splits_p[:2]])
    lm, im = schedule.split(row, tile.splits_m[2:])
    lp, ip = schedule.split(column, tile.splits_p[2:])
    schedule.reorder(*others, bp, bm, share, wm, wp, lm, lp, part, value, vm, vp, im, ip)
    grid, thread = schedule.fuse(*others, bp, bm), schedule.fuse(share, wm, wp, lm, lp)
    schedule.bind(grid, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    schedule.reverse_compute_at(exchanged, thread, preserve_unit_loops=True)
    *pieces, column = schedule.get_loops(exchanged)[-_PIECE_LOOPS:]
    for loop in pieces:
        schedule.unroll(loop)
    schedule.vectorize(column)
    # the block's threads again, for four neighbors each
    for later in (sums, stored):
        schedule.reverse_compute_at(later, grid, preserve_unit_loops=True)
    *_, m, p = schedule.get_loops(stored)
    across = tile.p // _VECTOR
    turn, pair, row = schedule.split(m, [None, 2, tile.threads // across])
    far, column, pixel = schedule.split(p, [None, across, _VECTOR])
    schedule.reorder(turn, pair, far, row, column, pixel)
    mark_rolled(schedule, turn)
    thread = schedule.fuse(row, column)
    schedule.bind(thread, "threadIdx.x")
    (schedule.vectorize if vector else schedule.unroll)(pixel)
    schedule.set_scope(sums, 0, "local")
    schedule.compute_at(sums, thread, preserve_unit_loops=True)
    axes = schedule.get_loops(sums)[-first - 3 :]
    schedule.vectorize(axes[-1])
    schedule.decompose_reduction(sums, axes[0])
    return own, part, value


def _piece_sizes(tile: BlockTile) -> tuple[int, int]:
    """Rows and columns that the pieces of a warp cover together."""
    return prod(tile.splits_m[2:]), prod(tile.splits_p[2:])


def _apart(axes: int, sizes: Mapping[int, int]) -> Any:
    """A layout that splits some axes into pieces of a size, and positions within a piece.

    A first axis is added for the warps that share accumulators.
    """
    from tvmconv.tvm_api.tirx import IndexMap

    def place(*index: Expr) -> list[Index]:
        found: list[Index] = [index[0]]
        for axis, value in enumerate(index[1:]):
            size = sizes.get(axis)
            found += [value] if size is None else [value // size, value % size]
        return found

    return IndexMap.from_func(place, ndim=axes + 1, index_dtype="int32")


def _by_fours(tile: BlockTile) -> Any:
    """The layout of columns in groups of four elements, so that a thread stores four at once.

    Positions are in the order in which the lanes of a warp read them. The positions that all lanes
    read at a time come first, 16 bytes each.
    """
    from tvmconv.tvm_api.tirx import IndexMap

    lanes, side = tile.splits_p[2:]

    def place(g: Expr, part: Expr, value: Expr, p: Expr) -> list[Index]:
        return [
            *(g, part, value // _VECTOR, p // (lanes * side)),
            *(p % side, p % (lanes * side) // side, value % _VECTOR),
        ]

    return IndexMap.from_func(place, index_dtype="int32")


def _pixels_by_fours(schedule: Schedule, loops: Sequence[LoopRV], tile: BlockTile) -> list[LoopRV]:
    """Loops over the elements and positions of a slice in the order of :func:`_by_fours`."""
    *_, value, pixel = loops
    four, value = schedule.split(value, [None, _VECTOR])
    piece, lane, place = schedule.split(pixel, [None, *tile.splits_p[2:]])
    schedule.reorder(four, piece, place, lane, value)
    return [four, piece, place, lane, value]


def copy_pipeline(
    schedule: Schedule,
    sums: BlockRV,
    columns: BlockRV,
    tile: BlockTile,
    part: LoopRV,
    value: LoopRV,
    *,
    lanes: int,
    pipeline: str,
) -> None:
    """Copy a slice to shared memory and its elements to registers.

    ``pipeline`` is the parameter of that name. ``lanes`` are the positions of one load of
    ``columns``, the block that fills shared memory. Loops of copies stay serial, because the pass
    that stages them in registers supports no others.
    """
    schedule.set_scope(columns, 0, "shared")
    weights = schedule.cache_read(sums, 0, "shared")
    fours = lanes == 1 and tile.fours
    # loops over the part of a slice that a copy and a thread's accumulators use
    taken, pieces = 2, 2
    if tile.share > 1:
        taken, pieces = taken + 1, _PIECE_LOOPS
        for place, copy in enumerate((weights, columns)):
            axes = len(schedule.get_loops(copy)) - 1
            size = _piece_sizes(tile)[place]
            layout = _by_fours(tile) if fours and place else _apart(axes, {axes - 1: size})
            schedule.transform_layout(sums, ("read", place), layout)
    ahead = value
    if fours:
        ahead, value = schedule.split(value, [None, _VECTOR])
    for place, at in enumerate((value, ahead)):
        read = schedule.cache_read(sums, place, "local")
        schedule.compute_at(read, at, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(read)[-1])
    for copy, width in ((weights, tile.vector), (columns, _VECTOR if fours else lanes)):
        schedule.compute_at(copy, part, preserve_unit_loops=True)
        loops = schedule.get_loops(copy)[-taken:]
        if fours and copy == columns:
            loops = _pixels_by_fours(schedule, loops, tile)
        both = schedule.fuse(*loops)
        turn, thread, vector = schedule.split(both, [None, tile.threads, width])
        schedule.bind(thread, "threadIdx.x")
        if width > 1:
            schedule.vectorize(vector)
        if pipeline == "none":
            schedule.unroll(turn)
        else:
            mark_copy_by_registers(schedule, copy, two_buffers=pipeline == "double")
    for loop in (*schedule.get_loops(sums)[-pieces:], value, *((ahead,) if fours else ())):
        schedule.unroll(loop)
    init = schedule.decompose_reduction(sums, part)
    for loop in schedule.get_loops(init)[-pieces:]:
        schedule.unroll(loop)
    if pipeline != "none":
        # two loads to registers, two stores to shared memory, and the GEMM: the next slice is
        # loaded, this one multiplied, the next one stored
        mark_pipeline(schedule, part, stages=[0, 0, 0, 0, 1], order=[0, 3, 1, 4, 2])


def add_parts(schedule: Schedule, output: BlockRV, area: int) -> None:
    """The second kernel: a thread for each output value, or for four neighbors."""
    *others, column = schedule.get_loops(output)
    outer, inner = schedule.split(column, [None, _VECTOR if area % _VECTOR == 0 else 1])
    bind_threads(schedule, (*others, outer), _ADDING)
    schedule.vectorize(inner)
