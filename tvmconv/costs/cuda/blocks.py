"""Blocks of threads that compute tiles of a GEMM: their resources and waves.

Cycles are of the GPU's clock for the whole call. Instructions of the main loop are those in the
machine code of nvcc 13.0 for sm_90 (tiles of 128x128 to 32x64, thirty layers). How blocks share a
multiprocessor follows the CUDA Programming Guide. Nothing was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmconv.algorithms.cuda.slices import (
    LARGE_BLOCK,
    PAIRED_ITERATIONS,
    PAIRED_PRODUCTS,
    WINDOW,
    Slices,
)
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.block_tile import BlockTile
from tvmconv.costs.cuda.memory import issued_lanes
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.cuda import CudaMachine

TILES = ((128, 128), (64, 128), (96, 64), (64, 64), (32, 64))
# tiles of threads with one accumulator each
_ONE_SUM = ((32, 32),)
# buffers of a slice by the parameter ``pipeline``; maximum parts of a reduction that are compared
BUFFERS, MOST_PARTS = {"double": 2, "single": 1, "none": 1}, 32
# warps of a multiprocessor that fill its issue slots
ENOUGH_WARPS = 8
# registers of a thread, limited by launch bounds for blocks of 256, 128 and 64 threads; fewer for
# up to 4x8 accumulators
_REGISTERS, _REGISTERS_SMALL = {256: 128, 128: 168, 64: 168}, 112
_FEW = 32
_QUARTERS, _WARP = 4, 32
# Each value of a window has a separate place and tests: with 168 registers some spilled. 12x8
# accumulators and their operands have 116 registers.
_REGISTERS_LARGE, _SMALL_BLOCK, _USUAL = 255, 64, 64

ROWS_KNOB: Knob[Conv2dWorkload] = Knob(
    "m", "output channels of a block's tile", lambda w, machine: (32, 64, 96, 128)
)
PIPELINE_KNOB: Knob[Conv2dWorkload] = Knob(
    "pipeline",
    "buffers of a slice: two, filled through registers; one, likewise; one, filled at once",
    lambda w, machine: ("double", "single", "none"),
    closed=True,
)


def columns_knob(what: str) -> Knob[Conv2dWorkload]:
    """The knob of the columns of a block's tile, for example pixels."""
    return Knob("p", f"{what} of a block's tile", lambda w, machine: (64, 128))


def parts_of_slicings(
    workload: Conv2dWorkload, slicings: Iterable[tuple[int, str]]
) -> tuple[int, ...]:
    """Parts of the reduction that slices of some sizes and kinds may have."""
    counts = {Slices(workload, kind, size).count for size, kind in slicings}
    return tuple(sorted({n for count in counts for n in divisors(count) if n <= MOST_PARTS}))


def tile_of(config: Config) -> BlockTile:
    """The tile of ``m`` and ``p``, and of im2win's ``kernel``, ``vector`` and ``micro``."""
    vector, micro = config.get("vector", 4), config.get("micro", 1)
    micro = micro and config.get("kernel", "tiled") == "tiled"
    return BlockTile(config.int("m"), config.int("p"), int(vector), bool(micro), config.int("k"))


def check_block(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Raise :class:`ConfigError` if ``m``, ``p``, ``k`` or ``pipeline`` exceed a block's limits."""
    m, p, k = (config.int(name) for name in ("m", "p", "k"))
    tiles = TILES if tile_of(config).micro else _ONE_SUM
    if (m, p) not in tiles:
        shown = ", ".join(f"{rows}x{columns}" for rows, columns in tiles)
        raise ConfigError(
            f"tile m={m} p={p} of {workload} is not possible. Expected one of {shown}. "
            "Change m or p."
        )
    check_minimum(workload, config, 1, "k")
    if (needed := shared_bytes(config)) > machine.static_shared_bytes:
        raise ConfigError(
            f"a slice k={k} of a tile m={m} p={p} needs {needed} bytes of shared memory "
            f"({workload}). Expected at most {machine.static_shared_bytes}. Decrease k or the tile."
        )


def shared_bytes(config: Config) -> int:
    """Shared memory of one block; exchanged accumulators reuse the place of columns."""
    tile, buffers = tile_of(config), BUFFERS[str(config["pipeline"])]
    values, exchanged = buffers * config.int("k"), tile.share * tile.m if tile.share > 1 else 0
    return 4 * (values * tile.m + max(values, exchanged) * tile.p)


def slice_bytes(config: Config) -> int:
    """Bytes of one slice."""
    return 4 * (config.int("m") + config.int("p")) * config.int("k")


def read_bytes(config: Config, slices: int) -> float:
    """Bytes of all slices of a block, and of the start before its first product."""
    return slice_bytes(config) * _passed(config, slices)


def resident_blocks(machine: CudaMachine, config: Config) -> int:
    """Blocks that a multiprocessor holds at a time."""
    tile = tile_of(config)
    return min(
        register_blocks(machine, config),
        machine.threads // tile.threads,
        machine.shared_bytes // (shared_bytes(config) + 1024),
        machine.blocks_resident,
    )


def register_blocks(machine: CudaMachine, config: Config) -> int:
    """Blocks whose threads fit the registers; nvcc limits threads accordingly."""
    tile = tile_of(config)
    registers = _REGISTERS[tile.threads] if tile.sums > _FEW else _REGISTERS_SMALL
    windows = config.get("slice") == WINDOW and tile.threads == _SMALL_BLOCK
    if windows or tile.sums > _USUAL:
        registers = _REGISTERS_LARGE
    registers = registers if tile.sums > 1 else machine.registers // tile.threads
    # each quarter of a multiprocessor has separate registers, and whole warps
    warps = machine.registers // (_QUARTERS * registers * _WARP)
    return _QUARTERS * warps * _WARP // tile.threads


def paired_saving(config: Config, slices: int) -> float:
    """Instructions of a slice's loop that unrolling slices in pairs saves.

    :func:`tvmconv.tir.cuda.unroll_slice_pairs.UnrollSlicePairs` unrolls all slices but the last.
    """
    tile = tile_of(config)
    products = config.int("k") // tile.share * tile.sums
    small = products <= PAIRED_PRODUCTS and tile.threads < LARGE_BLOCK
    return constants.SAVED_BY_PAIRS if small and slices > PAIRED_ITERATIONS else 0.0


def slice_instructions(tile: BlockTile, config: Config, others: float) -> tuple[float, float]:
    """FMAs of a thread for one slice, and all its issue slots.

    ``others`` are instructions of the loop and of copying the pixels.
    """
    size = config.int("k")
    own = size / tile.share
    products = own * tile.sums
    reads = own * (tile.thread_rows + tile.thread_columns) / tile.side
    vectors = -(-size * tile.m // (tile.vector * tile.threads))
    barriers = constants.WAIT + (constants.BARRIER if config["pipeline"] == "single" else 0.0)
    issued = products + reads + vectors * constants.COPY_VECTOR + others + barriers
    return products, max(issued, reads * constants.BANKS if tile.side == 1 else 0.0)


def busy_cycles(
    machine: CudaMachine, config: Config, blocks: int, slices: int, instructions: float
) -> float:
    """Cycles of all instructions on the multiprocessor with the most blocks.

    Each of the grid's ``blocks`` sums ``slices``, and a slice has ``instructions`` issue slots of a
    thread.
    """
    warps = tile_of(config).threads / machine.warp
    resident = resident_blocks(machine, config)
    busy = busy_blocks(blocks, resident, warps, machine)
    if config["pipeline"] == "none" and slices > 1:
        busy /= constants.WAITS_FOR_BYTES
    cycles = instructions * warps * machine.warp / issued_lanes(machine)
    return busy * cycles * _passed(config, slices)


def busy_blocks(blocks: int, resident: int, warps: float, machine: CudaMachine) -> float:
    """Blocks of the multiprocessor with the most blocks, times their slowdown by others.

    A multiprocessor holds ``resident`` blocks at a time, of so many ``warps`` each.
    """
    full, rest = divmod(blocks, machine.multiprocessors * resident)
    # blocks of the last wave are spread evenly, and share the issue slots of each multiprocessor
    last = -(-rest // machine.multiprocessors)
    return full * resident * _stretch(resident * warps) + last * _stretch(last * warps)


def _passed(config: Config, slices: int) -> float:
    """So many slices, and the time before the first and after the last product, in slices."""
    return slices + constants.ENDS / config.int("k")


def _stretch(warps: float) -> float:
    """The factor by which so many warps of a multiprocessor take longer than their instructions."""
    return 1.0 / (constants.FILLED * min(1.0, warps / ENOUGH_WARPS)) if warps else 0.0
