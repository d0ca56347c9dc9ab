"""The schedule of fully connected layers by Strassen's algorithm, for every CPU family.

1. Region of rows: parallel. The sums of its data come first, and stay in L2.
2. Panel of outputs: seven products, in register tiles of ``rows`` pairs of rows by ``width``
   vectors (see ``microkernel``). Their sums and the epilogue follow while products are in L1.

Register tiles prefetch the next panel of weights.
"""

from __future__ import annotations

from tvmconv.algorithms.gemm.dense_strassen import DenseHalves
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import dense_strassen
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile, transform_tile
from tvmconv.tir.annotations import mark_cases, mark_panel, mark_parallel
from tvmconv.tvm_api.types import Schedule


class DenseStrassenSchedule(ConvSchedule[Machine]):
    """Strassen products of the parts of a region of rows."""

    KNOBS = dense_strassen.KNOBS

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The region and register tile with the fewest predicted cycles."""
        return dense_strassen.best(workload, machine)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Tiles divide what they tile, and the register tile fits."""
        dense_strassen.check(workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of the algorithm's expression in place."""
        cut = DenseHalves.of(workload, machine, config)
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("dense"), schedule.get_sblock("output")
        m, j, vector, lane = schedule.get_loops(output)
        region, t, i = schedule.split(m, [None, cut.half, 2])
        panel, vector = schedule.split(vector, [cut.panels, cut.vectors])
        schedule.reorder(region, panel, t, vector, i, j, lane)
        mark_parallel(schedule, region)
        for loop in (vector, i, j):
            schedule.unroll(loop)
        schedule.vectorize(lane)
        transform_tile(schedule, schedule.get_sblock("quarters"), at=vector)

        schedule.compute_at(block, panel, preserve_unit_loops=True)
        q, t_tile, b, v, c, k = schedule.get_loops(block)[-6:]
        tiles, row = schedule.split(t_tile, [None, config.int("rows")])
        schedule.reorder(q, tiles, b, k, row, v, c)
        if config.int("fetch_weight"):
            mark_panel(schedule, tiles)
        store = schedule.cache_write(block, 0, "local")
        register_tile(schedule, block, store, at=tiles, reduction=k, tile=(b, row, v), lane=c)

        sums = schedule.get_sblock("sums")
        schedule.compute_at(sums, region, preserve_unit_loops=True)
        q, t_sum, d, lane = schedule.get_loops(sums)[-4:]
        schedule.reorder(t_sum, d, q, lane)
        schedule.unroll(q)
        schedule.vectorize(lane)
        transform_tile(schedule, schedule.get_sblock("halves"), at=d)
        if workload.batch % (2 * cut.half):
            mark_cases(schedule, region, t)

    explain_cost = staticmethod(dense_strassen.explain_cost)


SCHEDULE = DenseStrassenSchedule()
