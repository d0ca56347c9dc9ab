"""Algorithms 1 and 2 of Zhang et al.: loop orders without tiles, on one thread.

``naive``: input channels, output channels, columns, rows, taps, all scalar. ``reordered``: rows,
taps, input channels, columns, output channels, whose lanes are a vector.
"""

from __future__ import annotations

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.tile_knobs import OUT_BLOCKS
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.tvm_api.types import Schedule

VARIANTS = ("naive", "reordered")


class DirectNaiveSchedule(ConvSchedule[Machine]):
    """The two loop orders without tiles."""

    KNOBS = Knobs(
        (
            OUT_BLOCKS,
            Knob(
                "variant",
                "Algorithm 1 (naive) or 2 (reordered) of the paper",
                lambda w, machine: VARIANTS,
                closed=True,
            ),
        )
    )

    STEPS = tuple({"variant": variant} for variant in VARIANTS)

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """Algorithm 2, on weights packed as Algorithm 3 has them."""
        oc, _, _ = TileModel(workload, machine).best_tile()
        return Config.of(oc=oc, variant="reordered")

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Weights are packed in groups of at least one output block."""
        check_minimum(workload, config, 1, "oc")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule :class:`~tvmconv.algorithms.reproductions.direct_naive.DirectNaive`."""
        if flattened(workload) != workload:
            schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        n, kb, h, x, lane, cb, r, s, c = schedule.get_loops(schedule.get_sblock("conv2d"))
        if config["variant"] == "naive":
            schedule.reorder(n, cb, c, kb, lane, x, h, s, r)
            return
        schedule.reorder(n, h, r, s, cb, c, x, kb, lane)
        schedule.vectorize(lane)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """One FMA a cycle, of one element or of one vector; selection does not use this."""
        width = 1 if config["variant"] == "naive" else machine.lanes
        return {"arithmetic": workload.macs / width}


SCHEDULE = DirectNaiveSchedule()
