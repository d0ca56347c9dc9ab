"""Products of halves (Strassen), for every CPU family.

1. Image and region: parallel. Its input sums are made first.
2. Group of ``kr`` output blocks: its seven products, register tile by register tile (``rt`` pixels
   by ``kr`` blocks, see ``microkernel``), then their sums and the epilogue, while they lie in L1.
"""

from __future__ import annotations

from tvmconv.algorithms.strassen import Halves
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.microkernel import Microkernel, check_registers
from tvmconv.costs.strassen import KNOBS, StrassenModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import channel_steps, register_tile, transform_tile
from tvmconv.tir.annotations import mark_cases
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

__all__ = ["KNOBS", "apply", "check", "default_config", "explain_cost", "predicted_cycles"]


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The region and register tile with the fewest predicted cycles."""
    return StrassenModel(workload, machine).best()


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Tiles divide what they tile, and the register tile fits."""
    half, rt, kr = (config.int(name) for name in ("half", "rt", "kr"))
    if min(half, rt, kr) < 1:
        raise ConfigError(f"half, rt, kr of {workload} must be 1 or more: {config}")
    blocks = Halves(workload, machine, half).out_blocks
    if half % rt or blocks % kr:
        raise ConfigError(
            f"rt={rt} must divide the {half} pairs of pixels of a region of {workload}, and "
            f"kr={kr} the {blocks} blocks of half its outputs"
        )
    needed = Microkernel(machine, rt, kr).block_registers(rt)
    check_registers(machine, needed, f"tile rt={rt} kr={kr} of {workload}")


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.strassen.Strassen` in place."""
    half, kr = config.int("half"), config.int("kr")
    schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, p, lane = schedule.get_loops(output)
    group, kb, j = schedule.split(kb, [None, kr, 2])
    region, pair, i = schedule.split(p, [None, half, 2])
    schedule.reorder(n, region, group, kb, pair, i, j, lane)
    region = schedule.fuse(n, region)
    schedule.parallel(region)
    for loop in (i, j):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    transform_tile(schedule, schedule.get_sblock("quarters"), at=pair)
    _products(schedule, block, group, machine, config)
    _sums(schedule, region)
    if Halves(workload, machine, half).pixels % (2 * half):
        mark_cases(schedule, region, pair)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`StrassenModel`."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of that sum."""
    return StrassenModel(workload, machine).parts(config)


def _products(
    schedule: Schedule, block: BlockRV, group: LoopRV, machine: Machine, config: Config
) -> None:
    """The register tiles of a group."""
    schedule.compute_at(block, group, preserve_unit_loops=True)
    q, kb, t, lane, d, c = schedule.get_loops(block)[-6:]
    outer, tile = schedule.split(t, [None, config.int("rt")])
    steps, loops = channel_steps(machine, c, (tile, kb))
    schedule.reorder(q, outer, d, *steps, *loops, lane)
    store = schedule.cache_write(block, 0, "local")
    register_tile(schedule, block, store, at=outer, reduction=d, tile=loops, lane=lane)


def _sums(schedule: Schedule, region: LoopRV) -> None:
    """The seven sums of the input's quarters."""
    block = schedule.get_sblock("sums")
    schedule.compute_at(block, region, preserve_unit_loops=True)
    q, d, t, lane = schedule.get_loops(block)[-4:]
    schedule.reorder(d, t, q, lane)
    schedule.unroll(q)
    schedule.vectorize(lane)
    transform_tile(schedule, schedule.get_sblock("halves"), at=t)
