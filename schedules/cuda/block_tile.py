"""A block's tile of a matrix product: how slices arrive in shared memory, and sums leave."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.block_tile import BlockTile
from tvmconv.costs.cuda_blocks import tile_of
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tir.annotations import mark_copy_by_registers, mark_pipeline
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

_VECTOR = 4
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
    block = schedule.get_sblock("conv2d")
    z, g, m, p, part, value = schedule.get_loops(block)
    bm, wm, vm, lm, im = schedule.split(m, [None, *tile.splits_m])
    bp, wp, vp, lp, ip = schedule.split(p, [None, *tile.splits_p])
    schedule.reorder(z, g, bp, bm, vm, vp, wm, wp, lm, lp, part, value, im, ip)
    schedule.bind(schedule.fuse(z, g, bp, bm), "blockIdx.x")
    schedule.bind(vm, "vthread.y")
    schedule.bind(vp, "vthread.x")
    thread = schedule.fuse(wm, wp, lm, lp)
    schedule.bind(thread, "threadIdx.x")
    vector = tile.splits_p[-1] == _VECTOR and (split > 1 or area % _VECTOR == 0)
    store_tile(schedule, block, stored, thread, vector=vector)
    pipeline = str(config["pipeline"]) if slices > split else "none"
    copy_pipeline(schedule, block, columns, tile, part, value, lanes=lanes, pipeline=pipeline)


def store_tile(
    schedule: Schedule, sums: BlockRV, stored: BlockRV, thread: LoopRV, *, vector: bool
) -> None:
    """Sums are registers; a thread writes its pieces at the end, by vectors of pixels if it may."""
    schedule.set_scope(sums, 0, "local")
    schedule.reverse_compute_at(stored, thread, preserve_unit_loops=True)
    *_, row, column = schedule.get_loops(stored)
    schedule.unroll(row)
    (schedule.vectorize if vector else schedule.unroll)(column)


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
    for read in (schedule.cache_read(sums, 0, "local"), schedule.cache_read(sums, 1, "local")):
        schedule.compute_at(read, value, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(read)[-1])
    for copy, width in ((weights, tile.vector), (columns, lanes)):
        schedule.compute_at(copy, part, preserve_unit_loops=True)
        both = schedule.fuse(*schedule.get_loops(copy)[-2:])
        turn, thread, vector = schedule.split(both, [None, tile.threads, width])
        schedule.bind(thread, "threadIdx.x")
        if width > 1:
            schedule.vectorize(vector)
        if pipeline == "none":
            schedule.unroll(turn)
        else:
            mark_copy_by_registers(schedule, copy, two_buffers=pipeline == "double")
    *_, row, column = schedule.get_loops(sums)
    for loop in (row, column, value):
        schedule.unroll(loop)
    init = schedule.decompose_reduction(sums, part)
    for loop in schedule.get_loops(init)[-2:]:
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
