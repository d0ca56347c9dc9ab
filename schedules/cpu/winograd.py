"""Winograd convolution, for every CPU family.

Fused (``fused=1``): a region of ``rh`` rows of ``rw`` tiles goes through all stages while it lies
in L2; regions are parallel. Staged (``fused=0``): each stage is one parallel loop over the whole
batch, for planes with fewer regions than threads, or weights that should be read once only. The
products are register tiles of ``rt`` tiles by ``kr`` output blocks (see ``microkernel``).
"""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.algorithms.winograd_tiles import Tiling, by_strips, plane_strides, region_tiles, tiling
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.microkernel import check_registers
from tvmconv.costs.winograd import KNOBS, WinogradModel, strip_tiles
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import channel_steps, register_tile, transform_tile
from tvmconv.schedules.common.phases import phase_loops, product_loops
from tvmconv.tir.annotations import mark_cases, mark_panel, mark_stream
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# Bytes that weights of a single register tile are prefetched ahead: about memory's latency.
_AHEAD = 4096
__all__ = ["KNOBS", "apply", "check", "default_config", "explain_cost", "offers"]
STEPS = tuple({"mh": m, "mw": m} for m in range(2, 7))


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The tile size with the fewest predicted cycles."""
    return WinogradModel(workload, machine).best()


def offers(workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
    """The best config of every tile size: they differ in error and memory."""
    return WinogradModel(workload, machine).offers()


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Tiles divide what they tile, and the register tile fits."""
    WinogradModel(workload, machine).check_tile(config)
    tiles = tiling(workload, config)
    rh, rw, rt, kr = (config.int(name) for name in ("rh", "rw", "rt", "kr"))
    if min(rh, rw, rt, kr) < 1:
        raise ConfigError(f"rh, rw, rt, kr of {workload} must be 1 or more: {config}")
    if tiles.rows % rh or tiles.columns % rw or (rh > 1 and rw < tiles.columns):
        raise ConfigError(
            f"rh={rh} rw={rw} must divide the {tiles.rows}x{tiles.columns} tiles of {workload} "
            "into whole rows, or parts of one row"
        )
    region = region_tiles(tiles, config)
    if region % rt or machine.blocks(workload.out_channels) % kr:
        raise ConfigError(
            f"rt={rt} must divide the {region} tiles of a region of {workload}, and kr={kr} its "
            f"{machine.blocks(workload.out_channels)} output blocks"
        )
    needed = WinogradModel(workload, machine).registers(rt, kr)
    check_registers(machine, needed, f"tile rt={rt} kr={kr} of {workload}")


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.winograd.Winograd` in place."""
    apply_with(_products, mark_cases, schedule, workload, machine, config)


def apply_with(
    products_of: Callable[[Schedule, BlockRV, LoopRV | None, Machine, Config], BlockRV],
    strips_of: Callable[..., None],
    schedule: Schedule,
    workload: Conv2dWorkload,
    machine: Machine,
    config: Config,
) -> None:
    """As :func:`apply`, with a family's register tiles, and its strips: of each, of its columns."""
    tiles, fused = tiling(workload, config), bool(config.int("fused"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, h, x, lane = schedule.get_loops(output)
    th, i = schedule.split(h, [None, tiles.mh])
    tw, j = schedule.split(x, [None, tiles.mw])
    passes = []
    if by_strips(workload, machine) and tiles.mh > 3:
        # rows of one parity share the sums, or the differences, of what they are made of
        i, first = schedule.split(i, [None, 2 if tiles.mh % 2 == 0 else tiles.mh])
        schedule.unroll(first)
        passes.append(first)
    region = None
    if fused:
        regions, th = schedule.split(th, [None, config.int("rh")])
        parts, tw = schedule.split(tw, [None, config.int("rw")])
        schedule.reorder(n, regions, parts, kb, th, *passes, tw, i, j, lane)
        region = schedule.fuse(n, regions, parts)
        schedule.parallel(region)
    else:
        schedule.reorder(kb, n, th, *passes, tw, i, j, lane)
        schedule.parallel(kb)
    for loop in (i, j):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    transform_tile(schedule, schedule.get_sblock("rows"), at=tw)
    products = products_of(schedule, block, region, machine, config)
    transformed, strip = _input(schedule, region, machine, tiles, config)
    strips_of(schedule, *strip)
    strides = plane_strides(tiles, config, machine)
    for stage, (plane, stride, size) in zip((transformed, products), strides, strict=True):
        span = machine.l1d_way_bytes // size
        if stride > plane:
            schedule.storage_align(stage, 0, 0, span, stride % span)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`WinogradModel`."""
    return WinogradModel(workload, machine).call_cycles(config)


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of that sum."""
    return WinogradModel(workload, machine).shares(config)


def _products(
    schedule: Schedule, block: BlockRV, region: LoopRV | None, machine: Machine, config: Config
) -> BlockRV:
    """The register tiles; returns the block that stores them."""
    if region is not None:
        schedule.compute_at(block, region, preserve_unit_loops=True)
    p, kb, t, lane, *blocks, c = product_loops(schedule, block)
    outer, t_tile = schedule.split(t, [None, config.int("rt")])
    group, kb_tile = schedule.split(kb, [None, config.int("kr")])
    steps, tile = channel_steps(machine, c, (t_tile, kb_tile))
    schedule.reorder(p, group, outer, *blocks, *steps, *tile, lane)
    if region is None:
        p = schedule.fuse(p, group)
        schedule.parallel(p)
    if steps and int(schedule.get(outer).extent) == 1:
        mark_stream(schedule, c, _AHEAD)
    elif steps:
        mark_panel(schedule, outer)
    store = schedule.cache_write(block, 0, "local")
    register_tile(schedule, block, store, at=outer, reduction=blocks[0], tile=tile, lane=lane)
    return store


def _input(
    schedule: Schedule, region: LoopRV | None, machine: Machine, tiles: Tiling, config: Config
) -> tuple[BlockRV, tuple[LoopRV, ...]]:
    """The transform of the input; returns its block, and the loops over strips and columns."""
    strip: tuple[LoopRV, ...] = ()
    block = schedule.get_sblock("transform")
    if region is not None:
        schedule.compute_at(block, region, preserve_unit_loops=True)
    p, cb, t, lane = schedule.get_loops(block)[-4:]
    *passes, cb = phase_loops(schedule, cb, tiles.workload)
    schedule.reorder(cb, *passes, t, p, lane)
    if region is None:
        schedule.parallel(cb)
    schedule.unroll(p)
    schedule.vectorize(lane)
    columns, patch = schedule.get_sblock("columns"), schedule.get_sblock("patch")
    if by_strips(tiles.workload, machine):
        row = config.int("rw") if config.int("fused") else tiles.columns
        _, t = schedule.split(t, [None, row])
        part, _ = schedule.split(t, [None, strip_tiles(tiles, machine, row)])
        transform_tile(schedule, columns, at=part, strip=True)
        strip = part, schedule.get_loops(columns)[-3]
    else:
        transform_tile(schedule, columns, at=t)
    transform_tile(schedule, patch, at=schedule.get_loops(columns)[-3])
    return block, strip
