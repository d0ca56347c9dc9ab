"""Cycles of implicit GEMM on GPUs, counted from instructions, waves of blocks and bytes.

Cycles are of the GPU's clock for the whole call. Instructions of the main loop were counted in the
machine code of nvcc 13.0 for sm_80 and sm_90 (3x3 layers, tiles of 128x128 to 32x64); how blocks
share a multiprocessor follows the CUDA Programming Guide. Nothing was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tvmconv.algorithms.cuda.implicit_gemm import VECTOR, ImplicitGemm, reads_vectors, slices_of
from tvmconv.algorithms.cuda.slices import CHANNELS, KINDS, ROW, WINDOW, Slices
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda_blocks import (
    COPY_VECTOR,
    LOOP,
    TILES,
    busy_cycles,
    check_block,
    read_bytes,
    shared_bytes,
    slice_instructions,
    tile_of,
)
from tvmconv.costs.cuda_memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuts import divisors
from tvmconv.machines.cuda import CudaMachine

_SIZES = (8, 16, 32)
# a slice longer than this is unrolled into more code than instruction caches hold
_LONGEST = 48
_MOST_PARTS = 32
# instructions of a thread for each slice beside products and copies, where the input is padded, and
# those for each gathered value: load, store, a share of its address
_LOOP_PADDED, _GATHER = 36.0, 2.4
# instructions that find channel, row and column of a gathered value: of slices of a window or row
# that follow each other, and of whole ones where a thread's columns of pixels are not its own
_DIVIDED = {WINDOW: 60.0, ROW: 30.0}
_DIVIDED_WHOLE = 10.0
# tests of one column of the window, where a slice has several
_COLUMN = 2.4


def slice_kinds(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[str, ...]:
    """What a slice may hold: of a 1x1 window there is one kind; TVM takes minutes over volumes."""
    whole = workload.kernel_h == workload.kernel_w == 1
    return (CHANNELS,) if whole or workload.is_volume else KINDS


def slice_sizes(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[int, ...]:
    """Sizes worth trying: powers of two, and whole runs of few values."""
    runs = {Slices(workload, kind, 1).run_values for kind in slice_kinds(workload, machine)}
    return tuple(sorted({*_SIZES, *(run for run in runs if run <= _LONGEST)}))


def part_counts(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[int, ...]:
    """Parts of the reduction that some slicing may have."""
    counts = {
        count
        for size, kind in _slicings(workload, machine)
        for count in divisors(Slices(workload, kind, size).count)
        if count <= _MOST_PARTS
    }
    return tuple(sorted(counts))


def check_tile(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Hold a config of implicit GEMM to what a block may have.

    Raises
    ------
    ConfigError
        If the tile is not of whole warps, a slice does not fit into shared memory, or the parts do
        not divide the slices.
    """
    check_block(workload, machine, config)
    split = config.int("split")
    if split < 1:
        raise ConfigError(f"split={split} of {workload} must be 1 or more")
    count = slices_of(workload, config).count
    if count % split:
        raise ConfigError(f"split={split} must divide the {count} slices of {workload}")


def loop_instructions(workload: Conv2dWorkload, config: Config) -> tuple[float, float]:
    """Multiply-adds of a thread for one slice, and all issue slots that it takes."""
    tile, slices = tile_of(config), slices_of(workload, config)
    gathered = -(-slices.size * tile.p // tile.threads)
    each, loop = _GATHER, _LOOP_PADDED if workload.has_padding else LOOP
    if slices.kind != CHANNELS:
        loop += _COLUMN * workload.kernel_w if workload.has_padding else 0.0
        # the place of a value is a constant where a thread keeps to its column of pixels
        if slices.run_slices > 1:
            each += _DIVIDED[slices.kind]
        elif tile.threads != tile.p:
            each += _DIVIDED_WHOLE
    if reads_vectors(workload):
        gathered, each = -(-gathered // VECTOR), COPY_VECTOR
    return slice_instructions(tile, config, gathered * each + loop)


@lru_cache(maxsize=65536)
def tile_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> dict[str, float]:
    """Cycles by part: the multiply-adds, what waits for memory beside them, and launches.

    Returns
    -------
    dict
        ``arithmetic``, all instructions of the main loop on the multiprocessor that has most
        blocks; ``activations`` and ``memory``, by which reading slices from L2 and moving all
        arrays take longer than that; ``call``, the launches.
    """
    w, split = workload, config.int("split")
    tile, slices = tile_of(config), slices_of(w, config)
    groups, _, _, rows = ImplicitGemm().packed_weight_shape(w, machine, config)
    pixels = -(-w.out_planes * w.out_height * w.out_width // tile.p)
    blocks = split * groups * (rows // tile.m) * pixels
    count = slices.count // split
    _, instructions = loop_instructions(w, config)
    arithmetic = busy_cycles(machine, config, blocks, count, instructions)
    l2 = blocks * read_bytes(config, count) / machine.l2_rate
    memory = memory_cycles(w, machine, ImplicitGemm().workspace_bytes(w, machine, config))
    return {
        "arithmetic": arithmetic,
        "activations": max(0.0, l2 - arithmetic),
        "memory": waiting_cycles(memory, max(arithmetic, l2)),
        "call": machine.launch_cycles * (2 if split > 1 else 1),
    }


def _slicings(workload: Conv2dWorkload, machine: CudaMachine) -> Iterator[tuple[int, str]]:
    """Sizes and kinds that go together: whole runs of rows and windows, powers of channels."""
    channels = workload.in_channels // workload.groups
    for kind in slice_kinds(workload, machine):
        run = Slices(workload, kind, 1).run_values
        if run <= _LONGEST:
            yield run, kind
        if kind == CHANNELS or run > _LONGEST:
            yield from ((size, kind) for size in _SIZES if size < max(channels, run))


@lru_cache(maxsize=4096)
def best_config(workload: Conv2dWorkload, machine: CudaMachine) -> Config:
    """The tile, slices and parts with the fewest predicted cycles."""

    def offers() -> Iterator[Config]:
        for m, p in TILES:
            for k, kind in _slicings(workload, machine):
                count = Slices(workload, kind, k).count
                for split in (d for d in divisors(count) if d <= _MOST_PARTS):
                    # a buffer for the next slice only where there is one, and room for it
                    for pipeline in ("double", "single", "none"):
                        config = Config.of(
                            m=m, p=p, k=k, slice=kind, split=split, pipeline=pipeline
                        )
                        if shared_bytes(config) <= machine.static_shared_bytes:
                            yield config
                            break

    return min(offers(), key=lambda config: sum(tile_cycles(workload, machine, config).values()))
