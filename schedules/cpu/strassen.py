"""The schedule of Strassen's algorithm, for every CPU family.

1. Image and region: parallel. The input sums of a region come first.
2. Group of ``kr`` output blocks: seven products, in register tiles of ``rt`` pixels by ``kr``
   blocks (see ``microkernel``). Their sums and the epilogue follow while the products are in L1.

Two levels have 49 products, which stay in L2. Registers hold the input sums of one part of the
outer level, and the output sums of one pixel of the inner level.
"""

from __future__ import annotations

from tvmconv.algorithms.gemm.strassen import PRODUCTS, StrassenSplit
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import strassen
from tvmconv.costs.cpu.microkernel import Microkernel, check_registers
from tvmconv.costs.cpu.strassen import StrassenModel, level_counts
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import channel_steps, register_tile, transform_tile
from tvmconv.tir.annotations import mark_cases, mark_panel, mark_parallel
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


class StrassenSchedule(ConvSchedule[Machine]):
    """Strassen products of the parts of a region."""

    KNOBS = strassen.KNOBS

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The region and register tile with the fewest predicted cycles."""
        return StrassenModel(workload, machine).best()

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best config of each number of levels: they differ in error and memory."""
        return StrassenModel(workload, machine).offers()

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Tiles divide what they tile, and the register tile fits."""
        half, rt, kr, levels = (config.int(name) for name in ("half", "rt", "kr", "levels"))
        check_minimum(workload, config, 1, "half", "rt", "kr")
        if levels not in level_counts(workload, machine):
            raise ConfigError(
                f"levels={levels} of {workload} is not possible. Expected 1, or 2 if its blocks of "
                "input and output channels are multiples of 4. Change levels."
            )
        blocks = StrassenSplit.of(workload, machine, config).out_blocks
        check_divides(workload, config, "rt", half, "pixels of a part")
        check_divides(workload, config, "kr", blocks, "output blocks of a part")
        needed = Microkernel(machine, rt, kr).block_registers(rt)
        check_registers(machine, needed, f"tile rt={rt} kr={kr} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.strassen.Strassen` in place."""
        half, kr = config.int("half"), config.int("kr")
        cut = StrassenSplit.of(workload, machine, config)
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, p, lane = schedule.get_loops(output)
        group, kb, *j = schedule.split(kb, [None, kr, *[2] * cut.levels])
        region, t, *i = schedule.split(p, [None, half, *[2] * cut.levels])
        schedule.reorder(n, region, group, kb, t, *i[::-1], *j[::-1], lane)
        region = schedule.fuse(n, region)
        mark_parallel(schedule, region)
        for loop in (*i, *j):
            schedule.unroll(loop)
        schedule.vectorize(lane)
        quarters = schedule.get_sblock("quarters")
        transform_tile(schedule, quarters, at=t)
        if cut.levels == 2:
            row, column = schedule.get_loops(quarters)[-5:-3]
            for loop in (row, column):
                schedule.unroll(loop)
            transform_tile(schedule, schedule.get_sblock("inner"), at=row)
        products = _products(schedule, block, group, machine, config)
        sums = _sums(schedule, region, cut)
        if cut.pixels % (cut.ways * half):
            mark_cases(schedule, region, t)
        span = machine.l1d_way_bytes // itemsize(workload.types.accumulator)
        for stage, (plane, stride) in zip((sums, products), cut.planes(kr), strict=True):
            if stride > plane:
                schedule.storage_align(stage, 0, 0, span, stride % span)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return StrassenModel(workload, machine).parts(config)


SCHEDULE = StrassenSchedule()


def _products(
    schedule: Schedule, block: BlockRV, group: LoopRV, machine: Machine, config: Config
) -> BlockRV:
    """The register tiles of a group; returns the block that stores them."""
    schedule.compute_at(block, group, preserve_unit_loops=True)
    q, kb, t, lane, d, c = schedule.get_loops(block)[-6:]
    outer, tile = schedule.split(t, [None, config.int("rt")])
    steps, loops = channel_steps(machine, c, (tile, kb))
    schedule.reorder(q, outer, d, *steps, *loops, lane)
    if not machine.code.by_lane:
        mark_panel(schedule, outer)
    store = schedule.cache_write(block, 0, "local")
    register_tile(schedule, block, store, at=outer, reduction=d, tile=loops, lane=lane)
    return store


def _sums(schedule: Schedule, region: LoopRV, cut: StrassenSplit) -> BlockRV:
    """The sums of the input's quarters; returns their block."""
    block = schedule.get_sblock("sums")
    schedule.compute_at(block, region, preserve_unit_loops=True)
    q, d, t, lane = schedule.get_loops(block)[-4:]
    schedule.reorder(d, t, q, lane)
    if cut.levels == 2:
        part, q = schedule.split(q, [PRODUCTS, PRODUCTS])
        schedule.unroll(part)
        transform_tile(schedule, schedule.get_sblock("parts"), at=part)
    schedule.unroll(q)
    schedule.vectorize(lane)
    transform_tile(schedule, schedule.get_sblock("halves"), at=t)
    return block
