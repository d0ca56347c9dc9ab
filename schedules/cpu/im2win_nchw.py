"""The steps of the im2win thesis: every level adds one step to the level before.

========  ================================================================================
base      Algorithm 3: the plain loop nest, serial.
reorder   Algorithm 5: output blocks outermost, reduction outside the output columns.
vector    lanes: output channels here, the reduction in the paper.
unroll    the loops over a window, up to 25 elements.
register  Algorithm 6: a tile of columns and output blocks accumulates in registers over the
          reduction. W_ob, C_ob and W_fb of the thesis are the knobs ow, oc and wf.
cache     output blocks outside images and rows: their weights stay in cache.
parallel  output blocks and images over the threads
========  ================================================================================

A row of accumulators, which are vectors of output channels, is transposed in registers to NCHW.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cuts import balanced, divisors
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import vectorize_loop
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_transpose
from tvmconv.tvm_api.types import LoopRV, Schedule

LEVELS = ("base", "reorder", "vector", "unroll", "register", "cache", "parallel")
# FMAs per cycle and lane that each level reached on the twelve layers, docs/notes/im2win.md
_RATES = (0.02, 0.18, 0.45, 0.5, 1.1, 1.1, 1.1)
_MOST_UNROLLED = 25
_MOST_BLOCKS = 4
# registers for a broadcast pixel, and for pixels of later taps
_KEPT = 4
_FEW_REGISTERS, _SHORT_ROW, _LONG_COLUMN = 16, 5, 8


class Im2winNchwSchedule(ConvSchedule[Machine]):
    """The levels of the im2win thesis."""

    KNOBS = Knobs(
        (
            Knob(
                "level",
                "the last of the paper's steps that is used, from base to parallel",
                lambda w, machine: LEVELS,
                closed=True,
            ),
            Knob(
                "ow",
                "columns of the register tile",
                lambda w, machine: range(1, min(w.out_width, machine.vector_registers - 2) + 1),
                neutral=1,
            ),
            Knob(
                "oc",
                "output blocks of the register tile",
                lambda w, machine: range(1, min(_MOST_BLOCKS, machine.blocks(w.out_channels)) + 1),
                neutral=1,
            ),
            Knob(
                "wf",
                "columns of the kernel in a step of the register tile, a divisor of its width",
                lambda w, machine: divisors(w.kernel_w),
                neutral=1,
            ),
        )
    )

    STEPS = tuple({"level": level} for level in LEVELS)

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The last level, and a tile of two blocks that leaves registers for pixels.

        LLVM unrolls short loops over a window, and keeps pixels from one tap to the next. With few
        registers it spills them, unless steps of all kernel columns say which pixels are next.
        """
        oc = min(2, machine.blocks(workload.out_channels))
        few = machine.vector_registers <= _FEW_REGISTERS
        room = machine.vector_registers - oc - _KEPT - (few and workload.kernel_h > _LONG_COLUMN)
        ow = balanced(workload.out_width, min(room // oc, 14))
        whole = few and workload.kernel_w <= _SHORT_ROW
        return Config.of(level="parallel", ow=ow, oc=oc, wf=workload.kernel_w if whole else 1)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and steps divide the kernel's width."""
        ow, oc = config.int("ow"), config.int("oc")
        check_minimum(workload, config, 1, "ow", "oc", "wf")
        check_divides(workload, config, "wf", workload.kernel_w, "kernel columns")
        needed = ow * oc + oc + 1
        check_registers(machine, needed, f"tile oc={oc} ow={ow} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule :class:`~tvmconv.algorithms.reproductions.im2win_nchw.Im2winNchw`."""
        level = LEVELS.index(str(config["level"]))
        block, finished = schedule.get_sblock("conv2d"), schedule.get_sblock("finished")
        n, kb, m, x, lane, c, v, u = schedule.get_loops(block)
        if level >= LEVELS.index("register"):
            _registers(schedule, machine, config, level)
            return
        if level == 0:
            schedule.compute_inline(finished)
            schedule.reorder(n, kb, lane, m, x, c, v, u)
            return
        schedule.reorder(kb, n, m, c, x, v, u, lane)
        schedule.reverse_compute_at(finished, m)
        _write_rows(schedule, m, machine)
        if level >= LEVELS.index("vector"):
            schedule.vectorize(lane)
            schedule.vectorize(schedule.get_loops(finished)[-1])
        if (
            level >= LEVELS.index("unroll")
            and workload.kernel_h * workload.kernel_w <= _MOST_UNROLLED
        ):
            schedule.unroll(v)
            schedule.unroll(u)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """By the level's measured rate."""
        level = str(config["level"])
        steps = workload.macs / workload.out_channels * machine.blocks(workload.out_channels)
        cores = machine.cores if level == "parallel" else 1
        return {"arithmetic": steps / _RATES[LEVELS.index(level)] / cores}


SCHEDULE = Im2winNchwSchedule()


def _registers(schedule: Schedule, machine: Machine, config: Config, level: int) -> None:
    block, finished = schedule.get_sblock("conv2d"), schedule.get_sblock("finished")
    n, kb, m, x, lane, c, v, u = schedule.get_loops(block)
    x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
    group, kb_tile = schedule.split(kb, [None, config.int("oc")])
    v, v_tile = schedule.split(v, [None, config.int("wf")])
    outer = (group, n, m) if level >= LEVELS.index("cache") else (n, m, group)
    schedule.reorder(*outer, x_outer, c, v, u, v_tile, x_tile, kb_tile, lane)
    if level == LEVELS.index("parallel"):
        mark_parallel(schedule, group, n)
        image, channel, *_ = schedule.get_loops(schedule.get_sblock("windows"))
        schedule.parallel(schedule.fuse(image, channel))
    mark_cases(schedule, group, x_outer)
    tile = (v_tile, x_tile, kb_tile)
    register_tile(schedule, block, finished, at=x_outer, reduction=c, tile=tile, lane=lane)
    _write_rows(schedule, outer[-1], machine)


def _write_rows(schedule: Schedule, at: LoopRV, machine: Machine) -> None:
    """Write finished rows of channel blocks as rows of channels, by squares in registers."""
    output = schedule.get_sblock("output")
    schedule.reverse_compute_at(output, at, preserve_unit_loops=True)
    *_, channel, _, x = schedule.get_loops(output)
    block, lane = schedule.split(channel, [None, machine.channel_block])
    vectors = vectorize_loop(schedule, x, machine.lanes)
    *_, x = schedule.get_loops(output)
    schedule.reorder(block, *([vectors] if vectors else []), lane, x)
    # the last block may have fewer channels
    mark_cases(schedule, block, lane)
    mark_transpose(schedule, lane)
