"""Direct INT8 convolution without widening: the register tile of ``direct``, loops over steps.

Loops, outermost first:

1. image, cache block of tile rows, output block, tile row: parallel. If tiles are packed, all
   output blocks of a share use them;
2. tile column;
3. the reduction steps: a loop over joined pairs of steps, and a loop over the other steps;
4. row and column of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.direct_bytes import is_flat
from tvmconv.algorithms.integer.packed_pixels import orders_packed, packs_tiles
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_bytes import ByteTileModel, excess_sizes
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.threads import cache_block
from tvmconv.schedules.common.widening import (
    schedule_complements,
    schedule_packed_tiles,
    schedule_widening,
)
from tvmconv.schedules.cpu.direct import SCHEDULE as DIRECT
from tvmconv.tir.annotations import mark_bound, mark_cases, mark_parallel, mark_result
from tvmconv.tvm_api.types import LoopRV, Schedule


class DirectBytesSchedule(ConvSchedule[Machine]):
    """The register tile of INT8 direct convolution without widening."""

    KNOBS = Knobs(
        (
            *(knob for knob in DIRECT.KNOBS.knobs if knob.name in ("oh", "ow", "rows")),
            Knob(
                "excess",
                "steps for the excess of weights, of an output block on average",
                lambda w, machine: excess_sizes(ByteTileModel(w, machine).steps),
            ),
            Knob(
                "packed",
                "complements are stored with tiles of pixels, in so many byte permutations, or in "
                "a copy",
                lambda w, machine: range(orders_packed(w) + 1),
                neutral=0,
            ),
            Knob(
                "shares",
                "shares of the output blocks, each with tiles packed for itself",
                lambda w, machine: (1, machine.cores),
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """For weights without excess."""
        return self.offers(workload, machine)[0]

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The cheapest tile for each number of excess steps and of byte permutations."""
        found = []
        for excess in excess_sizes(ByteTileModel(workload, machine).steps):
            counts = range(orders_packed(workload) + 1)
            models = (ByteTileModel(workload, machine, excess, count) for count in counts)
            plain, *packed = (model.best() for model in models)
            if packed:
                # weights with so much excess in one permutation have less in others
                cycles = [self.predicted_cycles(workload, machine, c) for c in (plain, packed[0])]
                plain = plain if cycles[0] <= cycles[1] else packed[0]
            found += [plain, *packed[1:]]
        return tuple(found)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Sizes are positive, and the tile fits the register file."""
        oh, ow = config.int("oh"), config.int("ow")
        check_minimum(workload, config, 1, "oh", "ow")
        check_minimum(workload, config, 0, "rows", "excess")
        packed = config.int("packed")
        if oh > 1 and packs_tiles(workload, config):
            raise ConfigError(
                f"packed tiles of {workload} have oh={oh} rows. Expected oh=1. Set oh to 1."
            )
        if not 0 <= packed <= (most := orders_packed(workload)):
            raise ConfigError(
                f"packed={packed} of {workload} is out of range. Expected 0 to {most}. Change it."
            )
        model = ByteTileModel(workload, machine, packed=packed)
        registers = model.registers(1, oh, ow)
        check_registers(machine, registers, f"tile oh={oh} ow={ow} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`~tvmconv.algorithms.integer.direct_bytes.DirectBytes`."""
        flat = is_flat(workload, config)
        if flat:
            schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, h, x, lane, part, step = schedule.get_loops(block)
        h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
        x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
        tile = (h_tile, x_tile)
        share = None
        if flat:
            cache, x_outer = cache_block(schedule, x_outer, config)
            parallel: tuple[LoopRV, ...] = (n, cache, kb)
            inner: tuple[LoopRV, ...] = (h_outer, x_outer, part, step, *tile, lane)
            if packs_tiles(workload, config):
                share, kb = schedule.split(kb, [config.int("shares"), None])
                parallel, inner = (n, cache, share), (kb, *inner)
            schedule.reorder(*parallel, *inner)
        else:
            cache, h_outer = cache_block(schedule, h_outer, config)
            schedule.reorder(n, cache, kb, h_outer, x_outer, part, step, *tile, lane)
            parallel = (n, cache, kb, h_outer)
        if workload.has_padding:
            copy = schedule_complements if config.int("packed") else schedule_widening
            copy(schedule, workload)
        mark_bound(schedule, step)
        schedule.unroll(part)
        mark_parallel(schedule, *parallel)
        mark_cases(schedule, cache, x_outer)
        if config.int("oh") > 1:
            mark_cases(schedule, h_outer)
        if share is not None:
            schedule_packed_tiles(schedule, workload, machine, config, share)
            # a loop of one iteration is removed
            mark_result(schedule, x_outer if int(schedule.get(x_outer).extent) > 1 else kb)
        register_tile(schedule, block, output, at=x_outer, reduction=part, tile=tile, lane=lane)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        model = ByteTileModel(workload, machine, config.int("excess"), config.int("packed"))
        return model.parts(config)


SCHEDULE = DirectBytesSchedule()
