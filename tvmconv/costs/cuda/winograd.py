"""Cycles of Winograd convolution on GPUs: two transforms and the products between them.

Three kernels follow each other, each with separate instructions and traffic. A kernel finds the
previous kernel's results in L2 as far as they fit. Instructions other than arithmetic are those in
the machine code of nvcc 13.0 for sm_80 and sm_90. Nothing was measured on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from tvmconv.algorithms.cuda.winograd import (
    MOST_PRODUCTS,
    Winograd,
    has_tile,
    padded_tiles,
    tile_sizes,
    workspace_planes,
)
from tvmconv.algorithms.winograd.tiles import Tiling, tiling
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.blocks import (
    PIPELINE_KNOB,
    ROWS_KNOB,
    TILES,
    busy_cycles,
    check_block,
    columns_knob,
    paired_saving,
    read_bytes,
    shared_bytes,
    slice_instructions,
    tile_of,
)
from tvmconv.costs.cuda.memory import issued_lanes, waiting_cycles
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_divides
from tvmconv.costs.winograd_transforms import input_arithmetic, output_arithmetic
from tvmconv.machines.cuda import CudaMachine

_SIZES = (8, 16, 32)
_THREADS = (64, 128)
# the output transform reads all parts
_MOST_PARTS = 8

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("mh", "rows of an output tile", lambda w, machine: [h for h, _ in tile_sizes(w)]),
        Knob("mw", "columns of an output tile", lambda w, machine: [x for _, x in tile_sizes(w)]),
        ROWS_KNOB,
        columns_knob("Winograd's tiles"),
        Knob("k", "channels of a slice of the products", lambda w, machine: _SIZES),
        PIPELINE_KNOB,
        Knob(
            "split",
            "parts of the sum over channels, a divisor of the slices",
            lambda w, machine: sorted({n for k in _SIZES for n in _splits(w, k)}),
            neutral=1,
        ),
        Knob(
            "threads",
            "threads of a block of the transforms, a divisor of p",
            lambda w, machine: _THREADS,
        ),
    )
)


def _splits(w: Conv2dWorkload, k: int) -> list[int]:
    """Parts that slices of so many channels may have."""
    slices = -(-(w.in_channels // w.groups) // k)
    return [n for n in divisors(slices) if n <= _MOST_PARTS]


def writes_vectors(tiles: Tiling) -> bool:
    """Whether a row of an output tile is stored as one vector."""
    return tiles.mw in (2, 4) and tiles.workload.out_width % tiles.mw == 0


def check_config(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Raise :class:`ConfigError` if a config exceeds the points, or the limits of a block."""
    w, mh, mw, threads = workload, *(config.int(name) for name in ("mh", "mw", "threads"))
    check_block(workload, machine, config)
    if not has_tile(w, mh, mw):
        raise ConfigError(
            f"tile mh={mh} mw={mw} of {w} is not possible. Expected 1 or more, at most "
            f"{MOST_PRODUCTS} products along an axis (mh + {w.kernel_h} - 1, mw + {w.kernel_w} - "
            "1), and less than 2**31 transformed values. Change mh or mw."
        )
    slices = Winograd().packed_weight_shape(w, machine, config)[2]
    check_divides(w, config, "split", slices, "slices")
    if threads not in _THREADS or config.int("p") % threads:
        shown = ", ".join(map(str, _THREADS))
        raise ConfigError(
            f"threads={threads} of {w} is not possible. Expected one of {shown} that divides "
            f"p={config.int('p')}. Change threads."
        )


@lru_cache(maxsize=65536)
def stage_cycles(
    workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> dict[str, float]:
    """Cycles by part, of all three kernels.

    ``transforms`` and ``arithmetic`` are all instructions of the transforms and of the products.
    ``activations`` are additional cycles for the products' slices from L2. ``workspace`` and
    ``memory`` are additional cycles for moving transformed values and the layer's arrays.
    """
    w, tiles = workload, tiling(workload, config)
    transformed, products = workspace_planes(w, config)
    arithmetic, l2 = _products(w, machine, config)
    weights = Winograd().packed_weight_bytes(w, machine, config)
    results = 4 * prod(w.result_shape) * (2 if w.has("add") else 1)
    reading, writing = _transforms(tiles, machine, config)
    between = [size / _rate(size, machine) for size in (transformed, products)]
    stages = (
        (reading, 4 * prod(w.data_shape), between[0]),
        (max(arithmetic, l2), weights, between[0] + between[1]),
        (writing, results, between[1]),
    )
    workspace = memory = 0.0
    for busy, outside, inside in stages:
        needed = outside / machine.memory_rate + inside
        waited = waiting_cycles(needed, busy)
        workspace += waited * inside / needed
        memory += waited * (1 - inside / needed)
    return {
        "transforms": reading + writing,
        "arithmetic": arithmetic,
        "activations": max(0.0, l2 - arithmetic),
        "workspace": workspace,
        "memory": memory,
        "call": 3 * machine.launch_cycles,
    }


def loop_instructions(
    workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> tuple[float, float]:
    """FMAs of a thread of the products for one slice, and all its issue slots."""
    tile = tile_of(config)
    _, _, slices, size, _ = Winograd().packed_weight_shape(workload, machine, config)
    vectors = -(-size * tile.p // (4 * tile.threads))
    saved = paired_saving(config, slices // config.int("split"))
    return slice_instructions(
        tile, config, constants.LOOP - saved + vectors * constants.COPY_VECTOR
    )


def _products(w: Conv2dWorkload, machine: CudaMachine, config: Config) -> tuple[float, float]:
    """Cycles of the products' instructions, and of their slices from L2."""
    tiles, tile = tiling(w, config), tile_of(config)
    products, groups, slices, _, rows = Winograd().packed_weight_shape(w, machine, config)
    split = config.int("split")
    blocks = split * products * groups * (rows // tile.m)
    blocks *= padded_tiles(tiles, config) // tile.p
    _, slots = loop_instructions(w, machine, config)
    busy = busy_cycles(machine, config, blocks, slices // split, slots)
    return busy, blocks * read_bytes(config, slices // split) / machine.l2_rate


def _transforms(tiles: Tiling, machine: CudaMachine, config: Config) -> tuple[float, float]:
    """Cycles of all instructions of the input transform and of the output transform.

    Or of their loads and stores, if these take longer. At the input, lanes read rows of tiles with
    a distance of ``mw`` values and write single values; at the output it is the reverse.
    """
    w, steps = tiles.workload, len(tiles.workload.epilogue)
    pixels = tiles.mh * tiles.mw
    _, groups, slices, size, _ = Winograd().packed_weight_shape(w, machine, config)
    channels = groups * slices * size
    moved = tiles.products * (1 + tiles.mw)
    given = (
        constants.TRANSFORM_PLACE
        + constants.TRANSFORM_ROW * tiles.vertical.n
        + 2 * tiles.products
        + input_arithmetic(tiles)
    )
    reading = _spread(channels * padded_tiles(tiles, config), given, moved, machine, config)
    rows = tiles.mh if writes_vectors(tiles) else pixels
    read = tiles.products * config.int("split")
    moved = read + (2 if w.has("add") else 1) * rows * tiles.mw
    taken = (
        constants.TRANSFORM_PLACE
        + 2 * read
        - tiles.products
        + output_arithmetic(tiles)
        + steps * pixels
        + rows
    )
    if not writes_vectors(tiles):
        taken += constants.TRANSFORM_ROW * rows
    writing = _spread(w.out_channels * tiles.count, taken, moved, machine, config)
    return reading, writing


def _spread(
    threads: int, instructions: float, moved: float, machine: CudaMachine, config: Config
) -> float:
    """Cycles of so many threads on the busiest multiprocessor, which move some values each."""
    size = config.int("threads")
    blocks = -(-threads // size)
    most = -(-blocks // machine.multiprocessors) * size
    return constants.TRANSFORM_LATENCY + most * max(
        instructions / issued_lanes(machine), 4 * moved / constants.L1_RATE
    )


def _rate(size: int, machine: CudaMachine) -> float:
    """Bytes a cycle of a tensor that one kernel writes and the next one reads."""
    kept = min(1.0, constants.KEPT * machine.l2_bytes / size)
    return 1.0 / (kept / machine.l2_rate + (1.0 - kept) / machine.memory_rate)


def best_configs(workload: Conv2dWorkload, machine: CudaMachine) -> tuple[Config, ...]:
    """The config with the fewest predicted cycles for every tile size."""

    def cycles(config: Config) -> float:
        return sum(stage_cycles(workload, machine, config).values())

    return tuple(min(_configs(workload, *size), key=cycles) for size in tile_sizes(workload))


def _configs(workload: Conv2dWorkload, mh: int, mw: int) -> Iterator[Config]:
    for m, p in TILES:
        for k in _SIZES:
            config = Config.of(mh=mh, mw=mw, m=m, p=p, k=k, pipeline="double", threads=64, split=1)
            if shared_bytes(config) > CudaMachine.static_shared_bytes:
                continue
            for split in _splits(workload, k):
                yield config.replace(split=split)
                if p % 128 == 0:
                    yield config.replace(split=split, threads=128)
