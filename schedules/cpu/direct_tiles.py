"""Direct convolution by AMX tiles.

Loops, outermost first:

1. image, cache block of groups of tiles: parallel. If the whole image is copied, the group of
   output blocks is parallel, too;
2. one loop over rows and columns of groups. If pieces of a pixelwise layer are copied, it includes
   the groups of output blocks. The epilogue of a group runs during the next group's products;
3. the reduction: steps of the copy (kernel row, kernel column, block of channels);
4. rows, tiles and output blocks of a group, unrolled: one instruction each.

The accumulators of a group stay in tile registers; they are stored to the stack for the epilogue.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.direct_tiles import MOST_ON_STACK, copied_bytes, copies_pieces
from tvmconv.algorithms.integer.dwords import WIDEN
from tvmconv.algorithms.integer.tile_copies import TapsSideBySide, is_pixelwise, tile_copy, tiles_of
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_tiles import TileUnitModel
from tvmconv.costs.limits import check_divides
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.threads import cache_block
from tvmconv.schedules.common.tile_group import tile_group
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_tile_panel
from tvmconv.tvm_api.types import LoopRV, Schedule


class DirectTilesSchedule(ConvSchedule[Machine]):
    """Groups of AMX tiles."""

    KNOBS = Knobs(
        (
            Knob("oc", "output blocks of a group of tiles", lambda w, machine: range(1, 4)),
            Knob(
                "oh",
                "rows of a group of tiles",
                lambda w, machine: range(1, 2 if is_pixelwise(w) else 7),
            ),
            Knob("ow", "pixels of a tile", lambda w, machine: range(2, tiles_of(machine).rows + 1)),
            Knob("side", "tiles of a group side by side", lambda w, machine: range(1, 7)),
            Knob(
                "rows",
                "groups of a cache block, or rows of groups if the kernel is not 1x1; a divisor of "
                "their number, or 0 for all",
                lambda w, machine: (0, 1, 2, 4, 7, 8, 14, 16, 28, 49),
            ),
            Knob(
                "fetch",
                "1 prefetches the weights of the next output blocks",
                lambda w, machine: (0, 1),
                neutral=0,
                closed=True,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheapest group of :class:`TileUnitModel`."""
        return TileUnitModel(workload, machine).best()

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Sizes are positive, sums and factors fit the tile registers, cache blocks are whole."""
        unit, model = tiles_of(machine), TileUnitModel(workload, machine)
        oc, oh, ow, side, rows = (config.int(name) for name in ("oc", "oh", "ow", "side", "rows"))
        if min(oc, oh, ow - 1, side) < 1 or ow > unit.rows or rows < 0:
            raise ConfigError(
                f"tile sizes of {workload} are out of range: {config}. Expected oc, oh and side of "
                f"1 or more, ow from 2 to {unit.rows}, and rows of 0 or more. Change these knobs."
            )
        if oh > 1 and is_pixelwise(workload):
            raise ConfigError(
                f"oh={oh} of {workload} needs several rows, and all its pixels are one row. "
                "Expected oh=1. Increase side instead."
            )
        needed = model.registers(oc, oh * side)
        if needed > unit.registers:
            raise ConfigError(
                f"group oc={oc} oh={oh} side={side} of {workload} needs {needed} tile registers. "
                f"Expected at most {unit.registers}, as {machine.name} has. Use a smaller group."
            )
        if rows:
            check_divides(workload, config, "rows", model.group_rows(config), "groups")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.integer.direct_tiles.DirectTiles`."""
        flat, pieces = is_pixelwise(workload), copies_pieces(workload, config)
        if flat:
            schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, sums = schedule.get_sblock("conv2d"), schedule.get_sblock("sums")
        output = schedule.get_sblock("output")
        n, kb, h, x, lane, *steps, dword, byte = schedule.get_loops(block)
        kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
        h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
        x_outer, x_tile, pixel = schedule.split(x, [None, config.int("side"), config.int("ow")])
        group = (h_tile, x_tile, kb_tile)
        if flat:
            cache, x_outer = cache_block(schedule, x_outer, config)
        else:
            cache, h_outer = cache_block(schedule, h_outer, config)
        inner = (*steps, *group, pixel, lane, dword, byte)
        schedule.reorder(n, cache, kb_outer, h_outer, x_outer, *inner)
        groups = schedule.fuse(h_outer, x_outer)
        shared = int(schedule.get(groups).extent)
        groups = schedule.fuse(kb_outer, groups) if pieces else groups
        parallel = (n, cache) if pieces else (n, cache, kb_outer)
        _schedule_copy(schedule, workload, machine, config, cache)
        if config.int("fetch"):
            mark_tile_panel(schedule, groups, shared)
        mark_parallel(schedule, *parallel)
        mark_cases(schedule, cache, groups)
        tile_group(
            schedule, block, sums, output, at=groups, reduction=steps[0], group=group, pixel=pixel
        )

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return TileUnitModel(workload, machine).parts(config)


SCHEDULE = DirectTilesSchedule()


def _schedule_copy(
    schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config, cache: LoopRV
) -> None:
    """Contiguous bytes of the image are one vector; threads share rows."""
    copy, form = schedule.get_sblock(WIDEN), tile_copy(workload, machine)
    if copies_pieces(workload, config):
        schedule.compute_at(copy, cache, preserve_unit_loops=True)
        if copied_bytes(workload, machine, config) <= MOST_ON_STACK:
            schedule.set_scope(copy, 0, "local")
    if isinstance(form, TapsSideBySide):
        n, y, z = schedule.get_loops(copy)
        x, part, dword = schedule.split(z, [None, form.high, 4])
        outer: tuple[LoopRV, ...] = (n, y)
    else:
        n, cb, y, _phase, x, c = schedule.get_loops(copy)[-6:]
        part, dword = schedule.split(c, [None, machine.channel_block])
        outer = (n, cb, y)
    schedule.unroll(part)
    schedule.vectorize(dword)
    if not copies_pieces(workload, config):
        mark_parallel(schedule, *outer)
        mark_cases(schedule, outer[-1], x)
