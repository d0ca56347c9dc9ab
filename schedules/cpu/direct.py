"""Direct convolution, for every CPU family.

Loops, outermost first (Algorithm 3 of Zhang et al., extended by a cache block of rows):

1. image, cache block of tile rows, group of output blocks, tile row: parallel. If the reduction
   has parts, they are a loop around the tile rows, and each adds its sums to memory;
2. tile column;
3. the reduction: input block, plane of a 3-D kernel, kernel row and column, channel of the block.
   Integer types have the input block after the column;
4. row, column and output block of the register tile, unrolled; lanes, one vector. If FMAs
   multiply by lane, the channel of the block is unrolled around them.
"""

from __future__ import annotations

from tvmconv.algorithms.direct.channels import skips_channels
from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.integer.dwords import block_read, widened_shape
from tvmconv.algorithms.integer.wide_weights import widens_weights
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.padding import computed_share
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.direct_default import default_config, with_whole_reduction
from tvmconv.costs.cpu.direct_parts import CHANNEL_PARTS, check_parts
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import OUT_BLOCKS, prefetch_flag, row_blocks
from tvmconv.costs.cpu.wide_weights import WideTileModel
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common import widening
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import channel_steps, dword_steps, register_tile
from tvmconv.schedules.common.threads import cache_block
from tvmconv.tir.annotations import (
    mark_cases,
    mark_parallel,
    mark_prefetch,
    mark_range,
    mark_taps,
)
from tvmconv.tvm_api.types import Schedule


class DirectSchedule(ConvSchedule[Machine]):
    """The blocked register tile of direct convolution."""

    KNOBS = Knobs(
        (
            OUT_BLOCKS,
            Knob(
                "oh",
                "rows of the register tile",
                lambda w, machine: range(1, min(flattened(w).out_height, 4) + 1),
            ),
            Knob(
                "ow",
                "columns of the register tile",
                lambda w, machine: range(
                    1, min(flattened(w).out_width, machine.vector_registers) + 1
                ),
            ),
            Knob(
                "rows",
                "tile rows (tiles, where a layer is pixelwise) of a cache block; 0: all",
                lambda w, machine: row_blocks(flattened(w)),
                neutral=0,
            ),
            CHANNEL_PARTS,
            Knob(
                "wide",
                "INT8 weights are widened once for a group of output blocks: 1 before its tiles, "
                "2 by the first tile",
                lambda w, machine: range(3 if widens_weights(w, machine) else 1),
                neutral=0,
            ),
            prefetch_flag("fetch_input", "1 prefetches the next row of the input"),
            prefetch_flag("fetch_weight", "1 prefetches the next weights"),
        ),
        # Algorithms 1 and 2 of the paper were other values of it
        retired={"variant": "blocked"},
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheapest tile and cache block of :class:`TileModel`; wide weights if they pay."""
        return default_config(workload, machine)

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The default and, if its reduction has parts, a whole one, which needs no workspace."""
        return with_whole_reduction(self.default_config(workload, machine), workload, machine)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Sizes are positive, and the tile fits the register file."""
        model = TileModel(workload, machine)
        oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
        check_minimum(workload, config, 1, "oc", "oh", "ow")
        check_minimum(workload, config, 0, "rows")
        check_parts(workload, machine, config)
        tile = f"tile oc={oc} oh={oh} ow={ow} of {workload}"
        check_registers(machine, model.registers(oc, oh, ow), tile)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.direct.direct.Direct` in place."""
        w = flattened(workload)
        if w != workload:
            schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        consumer, kc = output, config.int("kc")
        if kc:
            part, _ = schedule.split(schedule.get_loops(block)[5], [None, kc])
            block, consumer = schedule.rfactor(part, 0), block
        n, kb, h, x, lane, *rest, r, s, c = schedule.get_loops(block)
        parts, (cb, *depth) = rest[: bool(kc)], rest[bool(kc) :]
        kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
        h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
        x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
        steps, tile = channel_steps(machine, c, (h_tile, x_tile, kb_tile))
        reduction = (cb, *depth, r, s)
        if multiply_of(workload, machine).is_packed:
            # LLVM unrolls the few dwords of a block: across taps it would keep the pixels
            cb, words = dword_steps(schedule, cb, machine, multiply_of(workload, machine))
            reduction, tile = (*depth, r, s, cb), (*words, *tile)
        if w.out_height == 1:
            cache, x_outer = cache_block(schedule, x_outer, config)
        else:
            cache, h_outer = cache_block(schedule, h_outer, config)
        outer = (n, cache, kb_outer, *parts, h_outer, x_outer)
        schedule.reorder(*outer, *reduction, *steps, *tile, lane)
        if config.int("wide"):
            widening.schedule_wide_weights(schedule, kb_outer, by_first_tile=config.int("wide") > 1)
        if widened_shape(workload, machine):
            joins = block_read(workload, machine) > machine.channel_block
            widen = widening.schedule_joining if joins else widening.schedule_widening
            widen(schedule, workload)
        # by lane no loop is left inside a row, so that a test of each row takes visible time
        bounded = machine.code.by_lane
        for taps in depth:
            mark_taps(schedule, taps, bounded=bounded)
        whole = w.out_height == 1 or config.int("wide") or kc
        mark_parallel(schedule, n, cache, kb_outer, *(() if whole else (h_outer,)))
        mark_cases(schedule, cache, kb_outer, *parts, x_outer)
        if config.int("oh") > 1 or workload.types.quantisation.data_zero_point:
            mark_cases(schedule, h_outer)
        mark_taps(schedule, r, s, bounded=bounded)
        if skips_channels(workload, machine):
            mark_range(schedule, c)
        inputs, weights = (bool(config.int(name)) for name in ("fetch_input", "fetch_weight"))
        mark_prefetch(schedule, c, inputs=inputs, weights=weights)
        register_tile(
            schedule, block, consumer, at=x_outer, reduction=reduction[0], tile=tile, lane=lane
        )
        if kc:
            schedule.reverse_compute_at(output, kb_outer, preserve_unit_loops=True)
            schedule.vectorize(schedule.get_loops(output)[-1])

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        wide = int(config.get("wide", 0))
        model = WideTileModel(workload, machine, wide) if wide else TileModel(workload, machine)
        parts = model.parts(config)
        return {**parts, "arithmetic": parts["arithmetic"] * computed_share(workload)}


SCHEDULE = DirectSchedule()
