"""Direct convolution by products of bytes: the register tile of ``direct``, one loop over steps.

Loops, outermost first:

1. image, cache block of tile rows, output block, tile row: parallel;
2. tile column;
3. step: the reduction, of data as they are and, in a loop of its own, of complements;
4. row and column of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from tvmconv.algorithms.direct import flattened
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.byte_tile import ByteTileModel, excess_sizes
from tvmconv.costs.microkernel import check_registers
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.widening import schedule_widening
from tvmconv.schedules.cpu import direct
from tvmconv.tir.annotations import mark_bound, mark_cases, mark_parallel
from tvmconv.tvm_api.types import LoopRV, Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        *(knob for knob in direct.KNOBS.knobs if knob.name in ("oh", "ow", "rows")),
        Knob(
            "excess",
            "steps for what is cut off weights, of an output block on average",
            lambda w, machine: excess_sizes(ByteTileModel(w, machine).steps),
        ),
    )
)


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """For weights without excess."""
    return offers(workload, machine)[0]


def offers(workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
    """The cheapest tile for each number of steps."""
    found = []
    for excess in excess_sizes(ByteTileModel(workload, machine).steps):
        model = ByteTileModel(workload, machine, excess)
        _, oh, ow = model.best_tile()
        found.append(Config.of(oh=oh, ow=ow, rows=model.block(1, oh, ow), excess=excess))
    return tuple(found)


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Sizes are positive, and the tile fits the register file."""
    oh, ow = config.int("oh"), config.int("ow")
    if min(oh, ow) < 1 or min(config.int("rows"), config.int("excess")) < 0:
        raise ConfigError(
            f"tile sizes of {workload} must be 1 or more, rows and excess 0 or more: {config}"
        )
    registers = ByteTileModel(workload, machine).registers(1, oh, ow)
    check_registers(machine, registers, f"tile oh={oh} ow={ow} of {workload}")


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.direct_bytes.DirectBytes` in place."""
    w = flattened(workload)
    if w != workload:
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, h, x, lane, part, step = schedule.get_loops(block)
    h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
    x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
    tile = (h_tile, x_tile)
    if w.out_height == 1:
        cache, x_outer = direct.cache_block(schedule, x_outer, config)
        schedule.reorder(n, cache, kb, h_outer, x_outer, part, step, *tile, lane)
        parallel: tuple[LoopRV, ...] = (n, cache, kb)
    else:
        cache, h_outer = direct.cache_block(schedule, h_outer, config)
        schedule.reorder(n, cache, kb, h_outer, x_outer, part, step, *tile, lane)
        parallel = (n, cache, kb, h_outer)
    if workload.has_padding:
        schedule_widening(schedule, workload)
    mark_bound(schedule, step)
    schedule.unroll(part)
    mark_parallel(schedule, *parallel)
    mark_cases(schedule, cache, x_outer)
    if config.int("oh") > 1:
        mark_cases(schedule, h_outer)
    register_tile(schedule, block, output, at=x_outer, reduction=part, tile=tile, lane=lane)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`ByteTileModel`."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of that sum."""
    return ByteTileModel(workload, machine, config.int("excess")).parts(config)
