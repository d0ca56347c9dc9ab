"""Cycles of convolutions on GPUs by tiles of a GEMM: instructions, waves of blocks, and bytes.

Cycles and their origin are as in :mod:`tvmconv.costs.cuda.blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from tvmconv.algorithms.cuda.base import MOST_VALUES
from tvmconv.algorithms.cuda.implicit_gemm import VECTOR, ColumnSource, ImplicitGemm
from tvmconv.algorithms.cuda.slices import CHANNELS, COLUMN, ROW, WINDOW, Slices
from tvmconv.core.config import Config, KnobValue
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.blocks import (
    MOST_PARTS,
    TILES,
    busy_cycles,
    check_block,
    paired_saving,
    parts_of_slicings,
    read_bytes,
    shared_bytes,
    slice_instructions,
    tile_of,
)
from tvmconv.costs.cuda.memory import issued_lanes, memory_cycles, waiting_cycles
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_divides
from tvmconv.machines.cuda import CudaMachine

_SIZES = (8, 16, 32)
# rows of all tiles but the smallest; values of the largest tile
_WHOLE_ROWS, _LARGEST = 64, 128 * 128
# slices beyond this length are unrolled to more code than instruction caches hold
_LONGEST = 48


def slice_sizes(
    expression: ImplicitGemm, workload: Conv2dWorkload, machine: CudaMachine
) -> tuple[int, ...]:
    """Sizes worth trying: powers of two, and whole runs of few values."""
    found = {size for size, _ in _slicings(expression, workload)}
    return tuple(sorted({*_SIZES, *found}))


def part_counts(
    expression: ImplicitGemm, workload: Conv2dWorkload, machine: CudaMachine
) -> tuple[int, ...]:
    """Parts of the reduction that some slicing may have."""
    return parts_of_slicings(workload, _slicings(expression, workload))


def check_tile(
    expression: ImplicitGemm, workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> None:
    """Raise :class:`ConfigError` if a config exceeds the limits of a block or 32-bit indices."""
    check_block(workload, machine, config)
    split = config.int("split")
    count = expression.slices(workload, config).count
    check_divides(workload, config, "split", count, "slices")
    values = split * prod(workload.result_shape)
    if split > 1 and values > MOST_VALUES:
        raise ConfigError(
            f"split={split} of {workload} makes parts of {values} values. Expected at most "
            f"{MOST_VALUES}. Decrease split."
        )


def loop_instructions(
    expression: ImplicitGemm, workload: Conv2dWorkload, config: Config
) -> tuple[float, float]:
    """FMAs of a thread for one slice, and all its issue slots."""
    tile, slices = tile_of(config), expression.slices(workload, config)
    source = expression.column_source(workload, config)
    gathered = -(-slices.size * tile.p // tile.threads)
    saved = paired_saving(config, slices.count // config.int("split"))
    if source is ColumnSource.VECTORS:
        copies = -(-gathered // VECTOR) * constants.COPY_VECTOR
        return slice_instructions(tile, config, copies + constants.LOOP - saved)
    padded = workload.has_padding and source is ColumnSource.IMAGE
    tested = padded and not slices.by_table
    each: float = constants.GATHER_FOURS if tile.fours else constants.GATHER
    each += constants.ZERO if tested else 0.0
    loop: float = constants.LOOP_TABLE if padded else constants.LOOP
    loop = (constants.LOOP_PADDED if tested else loop) - saved
    if slices.kind != CHANNELS:
        if padded:
            loop += constants.TESTS * (workload.kernel_w if slices.kind != COLUMN else 0)
            loop += constants.TESTS * (workload.kernel_h if slices.kind != ROW else 0)
            each += constants.TESTED_BOTH if slices.kind == WINDOW else 0.0
        # the place of a value is constant if a thread keeps its column of pixels
        if slices.run_slices > 1 and not slices.whole_windows:
            each += _dividing(source, slices.kind)
        elif tile.threads != tile.p:
            each += constants.DIVIDED_WHOLE
    return slice_instructions(tile, config, gathered * each + loop)


def loop_share(expression: ImplicitGemm, workload: Conv2dWorkload, config: Config) -> float:
    """FMAs over all instructions of a slice."""
    products, issued = loop_instructions(expression, workload, config)
    return products / (issued - constants.WAIT)


def _production(
    expression: ImplicitGemm, workload: Conv2dWorkload, configs: list[Config]
) -> tuple[list[Config], list[Config]]:
    """Configs whose main loop has a large enough share of FMAs; and all that do not spill.

    The share is :data:`FULL`, or the best share of tiles of 64 rows. The smallest tile is kept if
    all others would compute rows that do not exist. Tiles of 128x128 are removed if nvcc spilled
    them. It did if two parts of a block's threads have different places in a window, and on sm_80
    with a residual.
    """
    rows, kept = workload.out_channels // workload.groups, []
    for config in configs:
        tile, slices = tile_of(config), expression.slices(workload, config)
        gathered = expression.column_source(workload, config) is not ColumnSource.VECTORS
        places = gathered and slices.kind != CHANNELS and tile.threads > tile.p
        added = workload.has("add") and config.int("split") == 1
        if tile.m * tile.p < _LARGEST or not (places or added):
            kept.append(config)
    shares = [loop_share(expression, workload, config) for config in kept]
    whole = [s for s, c in zip(shares, kept, strict=True) if c.int("m") <= _WHOLE_ROWS]
    fewest = min(constants.FULL, max(whole))
    full = [
        config
        for share, config in zip(shares, kept, strict=True)
        if share >= fewest or 0 < rows % _WHOLE_ROWS <= config.int("m") < _WHOLE_ROWS
    ]
    return full, kept


@lru_cache(maxsize=65536)
def tile_cycles(
    expression: ImplicitGemm, workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> dict[str, float]:
    """Cycles by part: FMAs, additional waiting for memory, and launches.

    ``transforms`` is a kernel that writes windows or columns, if there is one. ``arithmetic`` is
    the main loop on the multiprocessor with the most blocks. ``activations`` and ``memory`` are the
    additional cycles for reading slices from L2 and moving all arrays. ``call`` are the launches.
    """
    w, split = workload, config.int("split")
    tile, slices = tile_of(config), expression.slices(w, config)
    groups, _, _, rows = expression.packed_weight_shape(w, machine, config)
    pixels = -(-w.out_planes * w.out_height * w.out_width // tile.p)
    blocks = split * groups * (rows // tile.m) * pixels
    count = slices.count // split
    _, instructions = loop_instructions(expression, w, config)
    arithmetic = busy_cycles(machine, config, blocks, count, instructions)
    l2 = blocks * read_bytes(config, count) / machine.l2_rate
    stored = expression.stored_bytes(w, config)
    parts = expression.workspace_bytes(w, machine, config) - stored
    memory = memory_cycles(w, machine, parts)
    found = {
        "arithmetic": arithmetic,
        "activations": max(0.0, l2 - arithmetic),
        "memory": waiting_cycles(memory, max(arithmetic, l2)),
        "call": machine.launch_cycles * (1 + (split > 1) + (stored > 0)),
    }
    return {"transforms": _writing(stored, machine), **found} if stored else found


def _writing(stored: int, machine: CudaMachine) -> float:
    """Cycles in which a kernel writes the GEMM's columns, and the GEMM reads them from beyond L2.

    The image is read here instead of in the GEMM, which makes no difference.
    """
    rate = machine.l2_rate if stored <= machine.l2_bytes / 2 else machine.memory_rate
    issued = stored / 4 * constants.WRITTEN / (machine.multiprocessors * issued_lanes(machine))
    return max(2 * stored / rate, issued + stored / rate)


def _slicings(
    expression: ImplicitGemm, workload: Conv2dWorkload, kinds: tuple[str, ...] = ()
) -> Iterator[tuple[int, str]]:
    """Compatible sizes and kinds: whole runs of rows and windows, powers of two of channels."""
    channels = workload.in_channels // workload.groups
    window = workload.kernel_h * workload.kernel_w
    for kind in kinds or expression.slice_kinds(workload):
        run = Slices(workload, kind, 1).run_values
        if run <= _LONGEST:
            yield run, kind
        if kind == CHANNELS or run > _LONGEST:
            yield from ((size, kind) for size in _SIZES if size < max(channels, run))
        if kind == WINDOW and COLUMN in expression.slice_kinds(workload):
            # whole windows of some channels
            most = min(channels - 1, _LONGEST // window)
            yield from ((window * n, kind) for n in range(1, most + 1) if window * n >= _SIZES[0])


@lru_cache(maxsize=4096)
def best_config(
    expression: ImplicitGemm,
    workload: Conv2dWorkload,
    machine: CudaMachine,
    fixed: tuple[tuple[str, KnobValue], ...] = (),
    kinds: tuple[str, ...] = (),
) -> Config:
    """The tile, slices and parts with the fewest predicted cycles.

    ``fixed`` are other parameters. ``kinds`` are the kinds of slices, by default all kinds of
    the expression.
    """

    def offers() -> Iterator[Config]:
        for m, p in TILES:
            for k, kind in _slicings(expression, workload, kinds):
                knobs = dict(fixed) | ({"slice": kind} if expression.slice_knob else {})
                count = Slices(workload, kind, k).count
                for split in (d for d in divisors(count) if d <= MOST_PARTS):
                    # one buffer needs a second barrier, except for a single slice
                    for pipeline in ("double", "none")[: 2 if count == split else 1]:
                        config = Config.of(**knobs, m=m, p=p, k=k, split=split, pipeline=pipeline)
                        if shared_bytes(config) <= machine.static_shared_bytes:
                            yield config
                            break

    def cycles(config: Config) -> float:
        return sum(tile_cycles(expression, workload, machine, config).values())

    full, every = (min(f, key=cycles) for f in _production(expression, workload, list(offers())))
    return every if cycles(full) > constants.LONGER * cycles(every) else full


def _dividing(source: ColumnSource, kind: str) -> float:
    """Instructions that find a gathered value of consecutive slices of a run."""
    if source is ColumnSource.WINDOWS:
        return constants.DIVIDED_STORED
    return constants.DIVIDED_WINDOW if kind == WINDOW else constants.DIVIDED_LINE
