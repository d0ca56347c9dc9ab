"""Winograd convolution, for every CPU family.

Fused (``fused=1``): a region of ``rh`` rows of ``rw`` tiles passes all stages while it is in L2;
regions are parallel. Staged (``fused=0``): each stage is one parallel loop over the whole batch. It
is for planes with fewer regions than threads, and for weights that should be read only once. The
products are register tiles of ``rt`` tiles by ``kr`` output blocks (see ``microkernel``).
"""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.algorithms.winograd.tiles import plane_strides, region_tiles, tiling
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import winograd
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.costs.cpu.winograd_traffic import AHEAD
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import channel_steps, register_tile
from tvmconv.schedules.common.phases import product_loops
from tvmconv.schedules.common.strips import output_loops, schedule_input, schedule_rows
from tvmconv.tir.annotations import (
    mark_cases,
    mark_interior,
    mark_panel,
    mark_parallel,
    mark_stream,
)
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


class WinogradSchedule(ConvSchedule[Machine]):
    """Transforms and products, fused by region or staged."""

    KNOBS = winograd.KNOBS

    STEPS = tuple({"mh": m, "mw": m} for m in range(2, 7))

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The tile size with the fewest predicted cycles."""
        return WinogradModel(workload, machine).best()

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best config of every tile size: they differ in error and memory."""
        return WinogradModel(workload, machine).offers()

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Tiles divide what they tile, and the register tile fits."""
        WinogradModel(workload, machine).check_tile(config)
        tiles = tiling(workload, config)
        rh, rw, rt, kr = (config.int(name) for name in ("rh", "rw", "rt", "kr"))
        check_minimum(workload, config, 1, "rh", "rw", "rt", "kr")
        check_divides(workload, config, "rh", tiles.rows, "rows of tiles")
        check_divides(workload, config, "rw", tiles.columns, "columns of tiles")
        if rh > 1 and rw < tiles.columns:
            raise ConfigError(
                f"rh={rh} rw={rw} of {workload} are parts of several rows. Expected whole rows, or "
                "parts of one row. Set rh=1."
            )
        check_divides(workload, config, "rt", region_tiles(tiles, config), "tiles of a region")
        if kr > (blocks := machine.blocks(workload.out_channels)):
            raise ConfigError(
                f"kr={kr} of {workload} exceeds its output blocks. Expected at most {blocks}. "
                "Decrease kr."
            )
        needed = WinogradModel(workload, machine).registers(rt, kr)
        check_registers(machine, needed, f"tile rt={rt} kr={kr} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.winograd.winograd.Winograd`"""
        apply_with(_products, _strips, schedule, workload, machine, config)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return WinogradModel(workload, machine).shares(config)


SCHEDULE = WinogradSchedule()


def _strips(schedule: Schedule, *loops: LoopRV) -> None:
    """The loops over a strip and over its columns: borders are separate code."""
    mark_cases(schedule, *loops)
    for column in loops[1:]:
        mark_interior(schedule, column)


def apply_with(
    products_of: Callable[[Schedule, BlockRV, LoopRV | None, Machine, Config], BlockRV],
    strips_of: Callable[..., None],
    schedule: Schedule,
    workload: Conv2dWorkload,
    machine: Machine,
    config: Config,
) -> None:
    """Apply the schedule with a family's register tiles and its strips."""
    tiles, fused = tiling(workload, config), bool(config.int("fused"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, h, x, lane = schedule.get_loops(output)
    th, i = schedule.split(h, [None, tiles.mh])
    tw, j = schedule.split(x, [None, tiles.mw])
    row = config.int("rw") if fused else tiles.columns
    region = None
    if fused:
        regions, th = schedule.split(th, [None, config.int("rh")])
        parts, tw = schedule.split(tw, [None, row])
        at, inner = output_loops(schedule, machine, tiles, row, (tw, i, j))
        schedule.reorder(n, regions, parts, kb, th, *inner, lane)
        region = schedule.fuse(n, regions, parts)
        schedule.parallel(region)
    else:
        at, inner = output_loops(schedule, machine, tiles, row, (tw, i, j))
        schedule.reorder(kb, n, th, *inner, lane)
        schedule.parallel(kb)
    schedule.vectorize(lane)
    schedule_rows(schedule, machine, tiles, at)
    if region is not None:
        for stage in (block, schedule.get_sblock("transform")):
            schedule.compute_at(stage, region, preserve_unit_loops=True)
    products = products_of(schedule, block, region, machine, config)
    transformed, strip = schedule_input(schedule, region, machine, tiles, config)
    strips_of(schedule, *strip)
    strides = plane_strides(tiles, config, machine)
    for stage, (plane, stride, size) in zip((transformed, products), strides, strict=True):
        span = machine.l1d_way_bytes // size
        if stride > plane:
            schedule.storage_align(stage, 0, 0, span, stride % span)


def _products(
    schedule: Schedule, block: BlockRV, region: LoopRV | None, machine: Machine, config: Config
) -> BlockRV:
    """The register tiles; returns the block that stores them."""
    p, kb, t, lane, *blocks, c = product_loops(schedule, block)
    outer, t_tile = schedule.split(t, [None, config.int("rt")])
    last = int(schedule.get(kb).extent) % config.int("kr")
    group, kb_tile = schedule.split(kb, [None, config.int("kr")])
    if last:
        mark_cases(schedule, group)  # the last register tile has fewer blocks
    steps, tile = channel_steps(machine, c, (t_tile, kb_tile))
    schedule.reorder(p, group, outer, *blocks, *steps, *tile, lane)
    if region is None and last:
        mark_parallel(schedule, p, group)
    elif region is None:
        schedule.parallel(schedule.fuse(p, group))
    if steps and int(schedule.get(outer).extent) == 1:
        mark_stream(schedule, c, AHEAD)
    elif steps:
        mark_panel(schedule, outer)
    store = schedule.cache_write(block, 0, "local")
    register_tile(schedule, block, store, at=outer, reduction=blocks[0], tile=tile, lane=lane)
    return store
