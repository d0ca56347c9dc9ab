"""Direct INT8 convolution by ``vpmaddubsw``: the register tile of ``direct``, loops over steps.

Loops, outermost first:

1. image, cache block of tile rows, output block, tile row: parallel; output blocks share packing;
2. tile column;
3. reduction step, in one loop over joined pairs and one over single steps;
4. row and column of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.direct_bytes import is_flat
from tvmconv.algorithms.integer.packed_pixels import (
    PACK,
    dwords_of_block,
    orders_packed,
    packs_tiles,
)
from tvmconv.algorithms.integer.saturation import MASKS
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_bytes import ByteTileModel, excess_sizes
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.widening import schedule_complements, schedule_widening
from tvmconv.schedules.cpu import direct
from tvmconv.tir.annotations import (
    mark_bound,
    mark_cases,
    mark_parallel,
    mark_result,
    mark_stream,
)
from tvmconv.tvm_api.types import LoopRV, Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        *(knob for knob in direct.KNOBS.knobs if knob.name in ("oh", "ow", "rows")),
        Knob(
            "excess",
            "steps for what is cut off weights, of an output block on average",
            lambda w, machine: excess_sizes(ByteTileModel(w, machine).steps),
        ),
        Knob(
            "packed",
            "complements lie beside tiles of pixels, in so many orders of words' bytes, or a copy",
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


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The best configuration for weights without excess."""
    return offers(workload, machine)[0]


def offers(workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
    """The cheapest tile for each number of excess steps and byte permutations."""
    found = []
    for excess in excess_sizes(ByteTileModel(workload, machine).steps):
        models = [ByteTileModel(workload, machine, excess)]
        count = orders_packed(workload)
        if not count:
            found.append(models[0].best())
            continue
        models += [ByteTileModel(workload, machine, excess, n + 1) for n in range(count)]
        # weights with so much excess in one permutation have less in others
        plain, *packed = (model.best() for model in models)
        cycles = [predicted_cycles(workload, machine, config) for config in (plain, packed[0])]
        found += [plain if cycles[0] <= cycles[1] else packed[0], *packed[1:]]
    return tuple(found)


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Sizes are positive, and the tile fits the register file."""
    oh, ow = config.int("oh"), config.int("ow")
    if min(oh, ow) < 1 or min(config.int("rows"), config.int("excess")) < 0:
        raise ConfigError(f"oh, ow of {workload} must be >= 1, rows and excess >= 0: {config}")
    packed = config.int("packed")
    if oh > 1 and packs_tiles(workload, config):
        raise ConfigError(f"packed of {workload} takes tiles of one row: {config}")
    if not 0 <= packed <= (most := orders_packed(workload)):
        raise ConfigError(f"packed of {workload} must be 0 to {most}: {config}")
    registers = ByteTileModel(workload, machine, packed=packed).registers(1, oh, ow)
    check_registers(machine, registers, f"tile oh={oh} ow={ow} of {workload}")


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
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
        cache, x_outer = direct.cache_block(schedule, x_outer, config)
        parallel: tuple[LoopRV, ...] = (n, cache, kb)
        if packs_tiles(workload, config):
            share, kb = schedule.split(kb, [config.int("shares"), None])
            parallel = (n, cache, share)
            schedule.reorder(*parallel, kb, h_outer, x_outer, part, step, *tile, lane)
        else:
            schedule.reorder(*parallel, h_outer, x_outer, part, step, *tile, lane)
    else:
        cache, h_outer = direct.cache_block(schedule, h_outer, config)
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
        _pack(schedule, workload, machine, config, share)
        # a loop of one tile does not exist in the code
        mark_result(schedule, x_outer if int(schedule.get(x_outer).extent) > 1 else kb)
    register_tile(schedule, block, output, at=x_outer, reduction=part, tile=tile, lane=lane)


def _pack(
    schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config, at: LoopRV
) -> None:
    """Pack the tiles of a cache block, by vectors of a tile's dwords or of a position's dwords."""
    block = schedule.get_sblock(PACK)
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, place = schedule.get_loops(block)
    dwords, pixels = dwords_of_block(machine), config.int("ow")
    variants = len(MASKS) * config.int("packed")
    mask, channel, pixel, dword = schedule.split(place, [variants, None, pixels, dwords])
    if (workload.stride_h, workload.stride_w) == (1, 1):
        schedule.reorder(channel, mask, pixel, dword)
        dword = schedule.fuse(pixel, dword)
        # each channel block begins at its own cache line, which prefetchers do not follow
        mark_stream(schedule, channel, pixels * machine.channel_block)
    else:
        schedule.reorder(pixel, channel, mask, dword)
    schedule.unroll(mask)
    schedule.vectorize(dword)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call by :class:`ByteTileModel`."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The parts of :func:`predicted_cycles`."""
    model = ByteTileModel(workload, machine, config.int("excess"), config.int("packed"))
    return model.parts(config)
