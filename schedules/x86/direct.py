"""Direct convolution on x86: AVX2 and AVX-512.

Loops, outermost first (Algorithm 3 of Zhang et al., extended by a cache block of rows):

1. image, cache block of tile rows, group of output blocks, tile row: parallel;
2. tile column;
3. input block, kernel row, kernel column, channel of the block: the reduction;
4. row, column and output block of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from typing import Any

from tvmconv.algorithms.direct import flattened
from tvmconv.config import Config, KnobValue
from tvmconv.errors import ConfigError
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.marks import (
    mark_cases,
    mark_parallel,
    mark_prefetch,
    mark_taps,
)
from tvmconv.schedules.common.microkernel import check_registers, register_tile
from tvmconv.schedules.common.tile_model import TileModel
from tvmconv.workload import Conv2dWorkload

_VARIANTS = ("blocked", "reordered", "naive")
# Algorithms 1, 2 and 3 of the source
STEPS = tuple({"variant": variant} for variant in reversed(_VARIANTS))


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The cheapest tile and cache block of :class:`TileModel`."""
    model = TileModel(workload, machine)
    oc, oh, ow = model.best_tile()
    rows = model.block(oc, oh, ow)
    config = Config.of(
        oc=oc, oh=oh, ow=ow, rows=rows, fetch_input=1, fetch_weight=0, variant="blocked"
    )
    return config.replace(fetch_weight=int(model.fetch_weights(config)))


def knobs(workload: Conv2dWorkload, machine: Machine) -> dict[str, tuple[KnobValue, ...]]:
    """Every knob with the values worth trying.

    ``oc``, ``oh``, ``ow``: the tile, in output blocks, rows and columns; ``check`` rejects those
    beyond the register file. ``rows``: tile rows (tiles, where a layer is pixelwise) in a cache
    block, 0 for all. ``fetch_input``, ``fetch_weight``: software prefetches. ``variant``:
    Algorithms 1, 2 and 3 of the source, of which only ``blocked`` is meant for use.
    """
    model = TileModel(workload, machine)
    w = model.shape
    count = w.out_width if w.out_height == 1 else w.out_height
    return {
        "oc": tuple(range(1, min(model.out_blocks, 6) + 1)),
        "oh": tuple(range(1, min(w.out_height, 4) + 1)),
        "ow": tuple(range(1, min(w.out_width, machine.vector_registers) + 1)),
        "rows": (0, *(r for r in (2, 4, 7, 8, 14, 16, 28, 32) if r < count)),
        "fetch_input": (0, 1),
        "fetch_weight": (0, 1),
        "variant": ("blocked",),
    }


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Knobs are known and positive, and the tile fits the register file."""
    model = TileModel(workload, machine)
    oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
    if min(oc, oh, ow) < 1 or config.int("rows") < 0:
        raise ConfigError(f"tile sizes of {workload} must be 1 or more, rows 0 or more: {config}")
    if config["variant"] not in _VARIANTS:
        raise ConfigError(f"variant={config['variant']!r} must be one of {', '.join(_VARIANTS)}")
    if config["variant"] == "blocked":
        tile = f"tile oc={oc} oh={oh} ow={ow} of {workload}"
        check_registers(machine, model.registers(oc, oh, ow), tile)


def apply(schedule: Any, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.direct.Direct` in place."""
    w = flattened(workload)
    if w != workload:
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, h, x, lane, cb, r, s, c = schedule.get_loops(block)
    if config["variant"] != "blocked":
        # Algorithm 1 keeps input channels outermost, Algorithm 2 output channels innermost
        naive = (cb, c, kb, lane, x, h, s, r, n)
        reordered = (h, r, s, cb, c, x, kb, lane, n)
        *order, image = naive if config["variant"] == "naive" else reordered
        schedule.reorder(image, *order)
        if config["variant"] == "reordered":
            schedule.vectorize(lane)
        return
    kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
    h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
    x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
    tile = (h_tile, x_tile, kb_tile)
    if w.out_height == 1:
        cache, x_outer = _cache_block(schedule, x_outer, config)
        parallel: tuple[Any, ...] = (n, cache, kb_outer)
        schedule.reorder(*parallel, h_outer, x_outer, cb, r, s, c, *tile, lane)
    else:
        cache, h_outer = _cache_block(schedule, h_outer, config)
        parallel = (n, cache, kb_outer, h_outer)
        schedule.reorder(*parallel, x_outer, cb, r, s, c, *tile, lane)
    mark_parallel(schedule, *parallel)
    mark_cases(schedule, cache, kb_outer, x_outer)
    if config.int("oh") > 1:
        mark_cases(schedule, h_outer)
    mark_taps(schedule, r, s)
    mark_prefetch(
        schedule,
        c,
        inputs=bool(config.int("fetch_input")),
        weights=bool(config.int("fetch_weight")),
    )
    register_tile(schedule, block, output, at=x_outer, reduction=cb, tile=tile, lane=lane)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`TileModel`."""
    return float(TileModel(workload, machine).call_cycles(config))


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of that sum."""
    parts: dict[str, float] = TileModel(workload, machine).parts(config)
    return parts


def _cache_block(schedule: Any, tiles: Any, config: Config) -> tuple[Any, Any]:
    """Split a loop over tile rows (or tiles) into cache blocks."""
    count = int(schedule.get(tiles).extent)
    outer, inner = schedule.split(tiles, [None, min(config.int("rows"), count) or count])
    return outer, inner
