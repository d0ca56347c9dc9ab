"""Cycles of implicit GEMM on tensor cores, as in :mod:`tvmconv.costs.cuda.tiles`.

A multiprocessor has three units: tensor cores, shared memory, and the issue of instructions. A
slice takes as long as the busiest unit, and longer where few warps hide what each waits for.
Instructions are those in the machine code of nvcc 13.0 for sm_80 and sm_90.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from math import prod

from tvmconv.algorithms.cuda import fragments
from tvmconv.algorithms.cuda.implicit_gemm import padded_rows, slices_of
from tvmconv.algorithms.cuda.implicit_gemm_mma import ImplicitGemmMma, precision_of
from tvmconv.algorithms.cuda.precision import PRECISIONS, Precision
from tvmconv.algorithms.cuda.slices import CHANNELS, WINDOW, Slices
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.blocks import (
    BUFFERS,
    ENOUGH_WARPS,
    MOST_PARTS,
    busy_blocks,
    parts_of_slicings,
)
from tvmconv.costs.cuda.memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuda.mma_tile import MmaTile
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_divides
from tvmconv.machines.cuda import CudaMachine

# m, p and a warp's part of them
TILES = (
    *((128, 128, 64, 64), (128, 64, 64, 32), (64, 128, 32, 64), (64, 128, 64, 32)),
    *((64, 64, 32, 32), (32, 128, 32, 32), (32, 64, 32, 16)),
)
# dwords of a slice for each of its rows and columns
_DWORDS = (8, 16, 32)
_LONGEST = 64
# banks of shared memory, and the distance of rows of columns in banks
_BANKS, _APART = 32, 8
# registers of a thread for addresses and loops, in addition to accumulators, fragments and copies
_ADDRESSES = 56


def tile_of(config: Config) -> MmaTile:
    """The tile of a configuration."""
    return MmaTile(*(config.int(name) for name in ("m", "p", "wm", "wp")))


def slice_sizes(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[int, ...]:
    """Values of a slice worth trying: whole steps, of either precision."""
    sizes = {s for p in PRECISIONS.values() for s, _ in _slicings(workload, machine, p)}
    return tuple(sorted(sizes))


def part_counts(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[int, ...]:
    """Parts of the reduction that some slicing may have."""
    slicings = (_slicings(workload, machine, precision) for precision in PRECISIONS.values())
    return parts_of_slicings(workload, chain.from_iterable(slicings))


def check_tile(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Raise :class:`ConfigError` if a config exceeds the limits of a block and its threads."""
    tile, precision = tile_of(config), precision_of(config)
    k, split = config.int("k"), config.int("split")
    whole = tile.wm >= fragments.ROWS and tile.wp >= fragments.COLUMNS
    whole = whole and tile.wm % fragments.ROWS == tile.wp % fragments.COLUMNS == 0
    if not whole or tile.m % tile.wm or tile.p % tile.wp or tile.m < 1 or tile.p < 1:
        raise ConfigError(
            f"warps wm={tile.wm} wp={tile.wp} of {workload} do not divide the tile m={tile.m} "
            f"p={tile.p}. Expected divisors, by multiples of {fragments.ROWS} and "
            f"{fragments.COLUMNS}. Change wm or wp."
        )
    step = fragments.DWORDS * precision.values
    if k < 1 or k % step or split < 1:
        raise ConfigError(
            f"k={k} split={split} of {workload} is not possible. Expected k as a multiple of "
            f"{step} for {precision.name}, and split of 1 or more. Change k or split."
        )
    dwords = k // precision.values
    if tile.m * dwords % (4 * tile.threads) or tile.p * dwords % (2 * tile.threads):
        raise ConfigError(
            f"k={k} of a tile m={tile.m} p={tile.p} gives {tile.threads} threads of {workload} "
            "unequal parts to copy. Expected equal parts. Increase k."
        )
    if (needed := shared_bytes(config)) > machine.static_shared_bytes:
        raise ConfigError(
            f"a slice k={k} of a tile m={tile.m} p={tile.p} needs {needed} bytes of shared memory "
            f"({workload}). Expected at most {machine.static_shared_bytes}. Decrease k or the tile."
        )
    if (needed := registers(workload, config)) > machine.registers_thread:
        raise ConfigError(
            f"wm={tile.wm} wp={tile.wp} k={k} of {workload} needs {needed} registers of a thread. "
            f"Expected at most {machine.registers_thread}. Use smaller values."
        )
    if not resident_blocks(workload, machine, config):
        raise ConfigError(
            f"{tile.threads} threads of {needed} registers each, of wm={tile.wm} wp={tile.wp} "
            f"k={k}, exceed a multiprocessor of {machine.name} ({workload}). Expected at most "
            f"{machine.registers} registers. Use smaller values."
        )
    check_divides(workload, config, "split", slices_of(workload, config).count, "slices")


def row_pitch(p: int) -> int:
    """Dwords between rows of ``p`` pairs of columns: 8 banks apart, so that 4 rows use all 32."""
    return 2 * p + (_APART - 2 * p) % _BANKS


def shared_bytes(config: Config) -> int:
    """Shared memory of one block; rows of columns are padded against bank conflicts."""
    tile, dwords = tile_of(config), config.int("k") // precision_of(config).values
    columns = dwords // fragments.DWORDS * fragments.QUAD * row_pitch(tile.p)
    return 4 * BUFFERS[str(config["pipeline"])] * (tile.m * dwords + columns)


def registers(workload: Conv2dWorkload, config: Config) -> int:
    """Registers of a thread: accumulators, fragments of a step, a slice being copied, the rest."""
    slices = slices_of(workload, config)
    tile, dwords = tile_of(config), config.int("k") // precision_of(config).values
    operands = tile.wm // fragments.ROWS * fragments.WEIGHTS
    operands += tile.wp // fragments.COLUMNS * fragments.COLUMN_DWORDS
    copied = 0 if config["pipeline"] == "none" else (tile.m + tile.p) * dwords // tile.threads
    # each gathered value of rows and windows has a separate address and test
    own = slices.kind != CHANNELS and slices.count > config.int("split")
    places = constants.MMA_PLACE * slices.size * tile.p / tile.threads if own else 0
    return tile.sums + operands + copied + int(places) + _ADDRESSES


def resident_blocks(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> int:
    """Blocks that a multiprocessor holds at a time."""
    tile = tile_of(config)
    return min(
        machine.registers // (registers(workload, config) * tile.threads),
        machine.threads // tile.threads,
        machine.shared_bytes // (shared_bytes(config) + 1024),
        machine.blocks_resident,
    )


def slice_cycles(
    workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> dict[str, float]:
    """Cycles of each unit of a multiprocessor for one slice of one block."""
    tile, precision, slices = tile_of(config), precision_of(config), slices_of(workload, config)
    dwords = slices.size // precision.values
    steps = dwords // fragments.DWORDS
    products = tile.m * tile.p * slices.size
    read = tile.warps * steps * (tile.wm + tile.wp) * fragments.DWORDS
    written = (tile.m + tile.p) * dwords
    gathered = slices.size * tile.p / tile.threads
    rounding = {"tf32": constants.ROUND_TF32, "fp16": constants.ROUND_FP16}
    each = constants.MMA_GATHER + rounding[precision.name] / precision.values
    if slices.run_slices > 1 and slices.kind != CHANNELS:
        whole = slices.kind == WINDOW
        each += constants.DIVIDED_WINDOW if whole else constants.DIVIDED_LINE
    vectors = tile.m * dwords / (4 * tile.threads) * 3
    instructions = (
        constants.MMA_LOOP
        + steps * (tile.products + tile.wm / fragments.ROWS + tile.wp / fragments.COLUMNS)
        + gathered * each
        + vectors
    )
    return {
        "products": products / machine.tensor_rate(precision.name),
        "shared": (read + written) / _BANKS,
        # four schedulers issue one instruction each
        "issued": instructions * tile.warps / 4,
    }


@lru_cache(maxsize=65536)
def tile_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> dict[str, float]:
    """Cycles by part, as :func:`tvmconv.costs.cuda.tiles.tile_cycles`."""
    w, split = workload, config.int("split")
    tile, slices = tile_of(config), slices_of(w, config)
    pixels = -(-w.out_planes * w.out_height * w.out_width // tile.p)
    blocks = split * w.groups * (padded_rows(w, config) // tile.m) * pixels
    each = slices.count // split + constants.ENDS / slices.size
    units = slice_cycles(w, machine, config)
    most = max(units.values())
    time = most + constants.SHARED_TIME * (sum(units.values()) - most)
    resident = resident_blocks(w, machine, config)
    busy = busy_blocks(blocks, resident, tile.warps, machine)
    if config["pipeline"] != "double" and slices.count > split:
        busy /= constants.WAITS_FOR_BYTES
    warps = tile.warps * min(resident, -(-blocks // machine.multiprocessors))
    exposed = 1.0 + constants.MMA_EXPOSED / max(warps, ENOUGH_WARPS)
    arithmetic = busy * time * each * exposed
    # weights as dwords, input as FP32
    bytes_of_slice = 4 * (tile.m * slices.size / precision_of(config).values)
    bytes_of_slice += 4 * tile.p * slices.size
    l2 = blocks * each * bytes_of_slice / machine.l2_rate
    # the second kernel reads the parts, and no product hides it
    parts = ImplicitGemmMma().workspace_bytes(w, machine, config)
    results = 4 * prod(w.result_shape)
    adding = (parts + results) / machine.memory_rate if split > 1 else 0.0
    memory = memory_cycles(w, machine, parts) - adding
    if split == 1 and w.out_height * w.out_width % fragments.COLUMNS:
        memory += constants.MMA_PARTIAL * results / machine.memory_rate
    return {
        "arithmetic": arithmetic,
        "activations": max(0.0, l2 - arithmetic),
        "memory": waiting_cycles(memory, max(arithmetic, l2)) + adding,
        "call": machine.launch_cycles * (2 if split > 1 else 1),
    }


def _slicings(
    workload: Conv2dWorkload, machine: CudaMachine, precision: Precision
) -> Iterator[tuple[int, str]]:
    """Compatible sizes and kinds: whole steps of channels, or of a row or the window."""
    step = fragments.DWORDS * precision.values
    for kind in ImplicitGemmMma().slice_kinds(workload):
        run = Slices(workload, kind, 1).run_values
        whole = -(-run // step) * step
        sizes = {dwords * precision.values for dwords in _DWORDS}
        found = {size for size in sizes if size < whole}
        if whole <= _LONGEST * precision.values and (kind != CHANNELS or whole in sizes):
            found.add(whole)
        yield from ((size, kind) for size in sorted(found or {step}))


@lru_cache(maxsize=4096)
def best_config(workload: Conv2dWorkload, machine: CudaMachine, precision: str) -> Config:
    """The tile, slices and parts with the fewest predicted cycles."""

    def offers() -> Iterator[Config]:
        for m, p, wm, wp in TILES:
            for k, kind in _slicings(workload, machine, PRECISIONS[precision]):
                count = Slices(workload, kind, k).count
                for split in (d for d in divisors(count) if d <= MOST_PARTS):
                    config = Config.of(
                        precision=precision,
                        **{"m": m, "p": p, "wm": wm, "wp": wp, "k": k},
                        slice=kind,
                        split=split,
                        pipeline="double",
                    )
                    try:
                        check_tile(workload, machine, config)
                    except ConfigError:
                        continue
                    yield config

    return min(offers(), key=lambda config: sum(tile_cycles(workload, machine, config).values()))
