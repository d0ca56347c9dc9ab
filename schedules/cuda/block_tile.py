"""A block's tile of a matrix product: how slices arrive in shared memory, and sums leave."""

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
# loops of a thread's pieces, and of a piece
_PIECE_LOOPS = 4
# threads of the kernel that adds parts up
_ADDING = 256


def stored_sums(schedule: Schedule, workload: Conv2dWorkload, split: int) -> BlockRV:
    """The block that writes what a thread has summed: pixels of all images are one loop of it.

    Parameters
    ----------
    schedule
        Of an expression of :class:`~tvmconv.algorithms.cuda.implicit_gemm.ImplicitGemm`.
    workload
        The convolution.
    split
        The knob: of several parts it is the workspace that is written, and a second kernel adds.
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
    """Schedule the product of an expression of ``ImplicitGemm``.

    1. blocks of threads: parts of a split reduction, groups, tiles of pixels, tiles of channels;
    2. slices of the reduction: weights and columns come to shared memory, the next slice to
       registers while this one is multiplied, and from there to the other of two buffers;
    3. warps, side by side, and their threads, with pieces of their sums apart.

    Parameters
    ----------
    schedule
        Of the function.
    workload, config
        What is computed, and the knobs ``split`` and ``pipeline`` and those of :func:`tile_of`.
    columns
        The block that brings a slice of columns to shared memory.
    slices
        Slices of the whole reduction.
    lanes
        Pixels that a thread of it reads at once.
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
    """Deal rows and columns of a product to blocks, warps and threads, and store their sums.

    Parameters
    ----------
    schedule
        Of the function.
    sums
        The product: any loops, rows, columns, slices, and values of a slice.
    stored
        The block that reads the sums; a thread does so at the end.
    tile
        Of a block.
    vector
        Whether it stores vectors of columns.

    Returns
    -------
    tuple
        The block of a thread's own sums, and its loops of slices and values.
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
    """The same where warps share sums: each adds its part of a slice's values, they meet in shared
    memory, and all threads add and store.

    A thread's pieces are axes of their own and not ``vthread``: TVM would do for each of those all
    that follows in the block.
    """
    share, _ = schedule.split(schedule.get_loops(sums)[-1], [tile.share, None])
    own = schedule.rfactor(share, 0)
    exchanged = schedule.cache_write(own, 0, "local")
    schedule.set_scope(exchanged, 0, "shared")
    *others, share, value = schedule.get_loops(own)
    schedule.reorder(share, *others, value)
    rows, columns = _piece_sizes(tile)
    # behind all axes of the sums but two come rows and columns, then slices and values
    first = len(others) - 3
    schedule.transform_block_layout(exchanged, _apart(first + 2, {first: rows, first + 1: columns}))
    schedule.transform_block_layout(own, _apart(first + 4, {first: rows, first + 1: columns}))
    schedule.transform_layout(
        own, ("write", 0), _apart(first + 2, {first: rows, first + 1: columns})
    )
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
    # the threads of a block once more, for four neighbours each
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
    """Rows and columns that the pieces of a warp have side by side."""
    return prod(tile.splits_m[2:]), prod(tile.splits_p[2:])


def _apart(axes: int, sizes: Mapping[int, int]) -> Any:
    """A layout in which some of so many axes are two: pieces of a size, and places in them.

    In front of all of them is one more, of the warps that share.
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
    """The layout of columns whose values lie by fours, so that a thread stores four at once.

    Pixels follow each other as the lanes of a warp read them: first those that all lanes read at a
    time, 16 bytes each.
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
    """Loops over the values and pixels of a slice in the order of that layout."""
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
    """Bring a slice to shared memory and its values to registers; ``pipeline`` is the knob,
    ``lanes`` the pixels of one load of ``columns``, the block that fills shared memory.

    Loops of copies stay serial: the pass that sends them through registers takes no others.
    """
    schedule.set_scope(columns, 0, "shared")
    weights = schedule.cache_read(sums, 0, "shared")
    fours = lanes == 1 and tile.fours
    # loops of what a copy and a thread's sums take of a slice
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
        # two copies to registers, two from there to shared memory, and the products: the next
        # slice is loaded, this one multiplied, the next one stored
        mark_pipeline(schedule, part, stages=[0, 0, 0, 0, 1], order=[0, 3, 1, 4, 2])


def add_parts(schedule: Schedule, output: BlockRV, area: int) -> None:
    """The second kernel: a thread for each value of the output, or for four neighbours."""
    *others, column = schedule.get_loops(output)
    outer, inner = schedule.split(column, [None, _VECTOR if area % _VECTOR == 0 else 1])
    bind_threads(schedule, (*others, outer), _ADDING)
    schedule.vectorize(inner)
