"""Winograd convolution whose products use scalable vectors of tiles.

Tiles of a region are contiguous like pixels, so that the products are the same as in direct
convolution. Columns of a strip are contiguous, too, and their part of the input transform uses
vectors of columns. The part for its tiles would gather every column, so it is NEON code, as is the
output transform.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.limits import check_divides
from tvmconv.costs.scalable.direct import MOST_VECTORS, segment_registers
from tvmconv.costs.scalable.winograd import SegmentWinogradModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.phases import product_loops
from tvmconv.schedules.cpu.winograd import SCHEDULE as NEON
from tvmconv.schedules.cpu.winograd import apply_with
from tvmconv.schedules.sve.layers import check_vectors
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import mark_cases, mark_segments
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


class SveWinogradSchedule(ScalableSchedule):
    """Products of scalable vectors of tiles, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            *NEON.KNOBS,
            Knob(
                "vectors",
                "scalable vectors of tiles of the register tile; 0: NEON code of rt tiles",
                lambda w, machine: range(MOST_VECTORS + 1),
                neutral=0,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The tile size with the fewest predicted cycles."""
        return SegmentWinogradModel(workload, machine).best()

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best config of every tile size: they differ in error and memory."""
        return SegmentWinogradModel(workload, machine).offers()

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The limits of NEON code, and the register tile of scalable vectors fits."""
        NEON.check(workload, machine, config)
        vectors = config.int("vectors")
        tile = f"tile kr={config['kr']} vectors={vectors} of {workload}"
        check_vectors(workload, vectors, MOST_VECTORS, tile, integers=True)
        if config.int("rt") != 1:
            raise ConfigError(
                f"{tile} has rt={config['rt']}. Expected 1, as rt is for NEON code. Set rt=1."
            )
        check_divides(
            workload, config, "kr", machine.blocks(workload.out_channels), "output blocks"
        )
        check_registers(machine, segment_registers(config.int("kr"), vectors), tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.winograd.winograd.Winograd`"""
        apply_with(_products, _strips, schedule, workload, machine, config)

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return SegmentWinogradModel(workload, machine).shares(config)

    # one model serves both kinds of vectors
    neon_cost = scalable_cost


SCHEDULE = SveWinogradSchedule()


def _products(
    schedule: Schedule, block: BlockRV, region: LoopRV | None, machine: Machine, config: Config
) -> BlockRV:
    """The register tiles; returns the block that stores them."""
    p, kb, t, lane, *blocks, c = product_loops(schedule, block)
    group, kb_tile = schedule.split(kb, [None, config.int("kr")])
    schedule.reorder(p, group, t, *blocks, c, kb_tile, lane)
    if region is None:
        schedule.parallel(schedule.fuse(p, group))
    store = schedule.cache_write(block, 0, "local")
    register_tile(schedule, block, store, at=t, reduction=blocks[0], tile=(c, kb_tile), lane=lane)
    mark_segments(schedule, t, config.int("vectors"))
    return store


def _strips(schedule: Schedule, *loops: LoopRV) -> None:
    """The loops over a strip and over its columns: vectors of columns, predicates for padding."""
    mark_cases(schedule, *loops[:1])
    for column in loops[1:]:
        mark_segments(schedule, column, 1)
