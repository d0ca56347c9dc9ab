"""Winograd convolution whose GEMM uses scalable vectors of tiles.

Tiles of a region are contiguous, as positions are, so that the GEMM is scheduled as direct
convolution. The columns of a strip are also contiguous, and are transformed by vectors. The
transform along a strip's tiles would gather every column. It and the output transform use NEON
code.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.scalable.direct import MOST_VECTORS, segment_registers
from tvmconv.costs.scalable.winograd import SegmentWinogradModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.phases import product_loops
from tvmconv.schedules.cpu import winograd as neon
from tvmconv.tir.annotations import mark_cases, mark_segments
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        *neon.KNOBS,
        Knob(
            "vectors",
            "scalable vectors of tiles of the register tile; 0: NEON code of rt tiles",
            lambda w, machine: range(MOST_VECTORS + 1),
            neutral=0,
        ),
    ),
    retired=neon.KNOBS.retired,
)


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The tile size with the fewest predicted cycles."""
    return SegmentWinogradModel(workload, machine).best()


def offers(workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
    """The best configuration of every tile size: they differ in error and memory."""
    return SegmentWinogradModel(workload, machine).offers()


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """As for NEON code, and the register tile of scalable vectors fits."""
    neon.check(workload, machine, config)
    vectors = config.int("vectors")
    if not vectors:
        return
    tile = f"tile kr={config['kr']} vectors={vectors} of {workload}"
    if not 0 < vectors <= MOST_VECTORS or config.int("rt") != 1:
        raise ConfigError(f"{tile}: vectors may be up to {MOST_VECTORS}, and rt is NEON's, 1 here")
    if (blocks := machine.blocks(workload.out_channels)) % config.int("kr"):
        raise ConfigError(f"{tile}: with vectors, kr must divide the {blocks} output blocks")
    check_registers(machine, segment_registers(config.int("kr"), vectors), tile)


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.winograd.winograd.Winograd` in place."""
    if config.int("vectors"):
        neon.apply_with(_products, _strips, schedule, workload, machine, config)
    else:
        neon.apply(schedule, workload, machine, config)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`SegmentWinogradModel`."""
    return SegmentWinogradModel(workload, machine).call_cycles(config)


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of :func:`predicted_cycles`."""
    return SegmentWinogradModel(workload, machine).shares(config)


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
    """Vectorize the loop over a strip's columns, and over its tiles.

    Predicates mask the padding.
    """
    mark_cases(schedule, *loops[:1])
    for column in loops[1:]:
        mark_segments(schedule, column, 1)
