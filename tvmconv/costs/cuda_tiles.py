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
from tvmconv.costs.block_tile import BlockTile
from tvmconv.costs.cuda_memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuts import divisors
from tvmconv.machines.cuda import CudaMachine

TILES = ((128, 128), (64, 128), (64, 64), (32, 64))
_SIZES = (8, 16, 32)
# a slice longer than this is unrolled into more code than instruction caches hold
_LONGEST = 48
_MOST_PARTS = 32
_BUFFERS = {"double": 2, "single": 1, "none": 1}
# instructions of a thread for each slice beside products and copies, where the input is padded and
# where not, and those for each gathered value: load, store, a share of its address
_LOOP_PADDED, _LOOP, _GATHER, _COPY_VECTOR = 36.0, 20.0, 2.4, 2.0
# what a second barrier costs that keeps a slice from being stored before the last one is read
_BARRIER = 40.0
# issue slots that a slice loses at its barrier: assumed
_WAIT = 20.0
# instructions that find channel, row and column of a gathered value: of slices of a window or row
# that follow each other, and of whole ones where a thread's columns of pixels are not its own
_DIVIDED = {WINDOW: 60.0, ROW: 30.0}
_DIVIDED_WHOLE = 10.0
# tests of one column of the window, where a slice has several
_COLUMN = 2.4
# values' worth of time before the first product and behind the last
_ENDS = 24.0
# share of issue slots that warps fill when there are enough of them, and that many of an SM
_FILLED, _ENOUGH_WARPS = 0.95, 8
# registers of a thread: those to which launch bounds hold blocks of 256, 128 and 64 threads; of 4x8
# sums it needs fewer
_REGISTERS, _REGISTERS_SMALL = {256: 128, 128: 168, 64: 168}, 112
_COPIED_ONCE_LOST = 0.8


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
    m, p, k, split = (config.int(name) for name in ("m", "p", "k", "split"))
    if (m, p) not in TILES:
        shown = ", ".join(f"{rows}x{columns}" for rows, columns in TILES)
        raise ConfigError(f"tile m={m} p={p} of {workload} must be one of {shown}")
    if k < 1 or split < 1:
        raise ConfigError(f"k={k} split={split} of {workload} must be 1 or more")
    if (needed := shared_bytes(config)) > machine.static_shared_bytes:
        raise ConfigError(
            f"a slice k={k} of a tile m={m} p={p} takes {needed} bytes of shared memory, a block "
            f"has {machine.static_shared_bytes} ({workload})"
        )
    count = slices_of(workload, config).count
    if count % split:
        raise ConfigError(f"split={split} must divide the {count} slices of {workload}")


def shared_bytes(config: Config) -> int:
    """Shared memory of one block."""
    buffers = _BUFFERS[str(config["pipeline"])]
    return 4 * (config.int("m") + config.int("p")) * config.int("k") * buffers


def resident_blocks(machine: CudaMachine, config: Config) -> int:
    """Blocks that a multiprocessor holds at a time."""
    tile = BlockTile(config.int("m"), config.int("p"))
    registers = _REGISTERS[tile.threads] if tile.row_pieces > 1 else _REGISTERS_SMALL
    return min(
        machine.registers // (registers * tile.threads),
        machine.threads // tile.threads,
        machine.shared_bytes // (shared_bytes(config) + 1024),
        machine.blocks_resident,
    )


def loop_instructions(workload: Conv2dWorkload, config: Config) -> tuple[float, float]:
    """Multiply-adds of a thread for one slice, and all issue slots that it takes."""
    tile, slices = BlockTile(config.int("m"), config.int("p")), slices_of(workload, config)
    products = float(slices.size * tile.sums)
    reads = slices.size * (tile.thread_rows + tile.thread_columns) / 4
    gathered = -(-slices.size * tile.p // tile.threads)
    each, loop = _GATHER, _LOOP_PADDED if workload.has_padding else _LOOP
    if slices.kind != CHANNELS:
        loop += _COLUMN * workload.kernel_w if workload.has_padding else 0.0
        # the place of a value is a constant where a thread keeps to its column of pixels
        if slices.run_slices > 1:
            each += _DIVIDED[slices.kind]
        elif tile.threads != tile.p:
            each += _DIVIDED_WHOLE
    if reads_vectors(workload):
        gathered, each = -(-gathered // VECTOR), _COPY_VECTOR
    vectors = -(-slices.size * tile.m // (4 * tile.threads))
    loop += _WAIT
    loop += _BARRIER if config["pipeline"] == "single" else 0.0
    return products, products + reads + gathered * each + vectors * _COPY_VECTOR + loop


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
    tile, slices = BlockTile(config.int("m"), config.int("p")), slices_of(w, config)
    groups, _, _, rows = ImplicitGemm().packed_weight_shape(w, machine, config)
    pixels = -(-w.out_planes * w.out_height * w.out_width // tile.p)
    blocks = split * groups * (rows // tile.m) * pixels
    each = slices.count // split + _ENDS / slices.size
    _, instructions = loop_instructions(w, config)
    warps = tile.threads / machine.warp
    resident = resident_blocks(machine, config)
    busy = busy_blocks(blocks, resident, warps, machine)
    if config["pipeline"] == "none" and slices.count > split:
        busy /= _COPIED_ONCE_LOST
    arithmetic = busy * instructions * each * warps * machine.warp / machine.lanes
    slice_bytes = 4 * (tile.m + tile.p) * slices.size
    l2 = blocks * each * slice_bytes / machine.l2_rate
    memory = memory_cycles(w, machine, ImplicitGemm().workspace_bytes(w, machine, config))
    return {
        "arithmetic": arithmetic,
        "activations": max(0.0, l2 - arithmetic),
        "memory": waiting_cycles(memory, max(arithmetic, l2)),
        "call": machine.launch_cycles * (2 if split > 1 else 1),
    }


def busy_blocks(blocks: int, resident: int, warps: float, machine: CudaMachine) -> float:
    """Blocks of the multiprocessor that has most, times how much longer than alone they take.

    Parameters
    ----------
    blocks, resident
        Of the kernel, and those that a multiprocessor holds at a time.
    warps
        Of a block.
    machine
        The GPU.
    """
    full, rest = divmod(blocks, machine.multiprocessors * resident)
    # those of the last wave are spread evenly, and share what each multiprocessor issues
    last = -(-rest // machine.multiprocessors)
    return full * resident * _stretch(resident * warps) + last * _stretch(last * warps)


def _stretch(warps: float) -> float:
    """By which factor so many warps of a multiprocessor take longer than their instructions."""
    return 1.0 / (_FILLED * min(1.0, warps / _ENOUGH_WARPS)) if warps else 0.0


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
