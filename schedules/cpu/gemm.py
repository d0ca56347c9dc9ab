"""The packed GEMM, for every CPU family.

The five loops around the register tile (FTEngine, section 4.2.2), outermost first:

5. ``nc``: columns of a panel of B;
4. ``kc``: inner steps of a panel, packed on arrival; C is read and written once for each;
3. ``mc``: rows of a block of A, packed on arrival; parallel;
2. ``nr``: slivers of B;
1. ``mr``: slivers of A; ``mr`` rows by ``nr`` columns stay in registers over ``kc`` steps.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.costs.cpu.gemm import KNOBS, default_config
from tvmconv.costs.cpu.microkernel import Microkernel, check_registers
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.tir.annotations import (
    mark_cases,
    mark_panel,
    mark_parallel,
    mark_result,
    mark_stream,
    mark_transpose,
)
from tvmconv.tvm_api.types import LoopRV, Schedule

__all__ = ["KNOBS", "apply", "check", "default_config"]


def check(workload: GemmWorkload, machine: Machine, config: Config) -> None:
    """The register tile fits, and the loops support every parameter value."""
    names = ("mr", "nr", "kc", "mc", "nc", "unroll")
    mr, nr, kc, mc, nc, unroll = (config.int(name) for name in names)
    check_minimum(workload, config, 1, *names, "tasks")
    check_minimum(workload, config, 0, "ahead")
    if nr % machine.lanes or kc % unroll:
        raise ConfigError(
            f"nr={nr} or kc={kc} of {workload} is not divisible. Expected nr as a multiple of "
            f"{machine.lanes} lanes, and kc of unroll={unroll}. Change nr or kc."
        )
    if mc < mr or nc < nr:
        raise ConfigError(
            f"blocks mc={mc} nc={nc} of {workload} are smaller than the tile mr={mr} nr={nr}. "
            "Expected mc >= mr and nc >= nr. Increase mc or nc."
        )
    needed = Microkernel(machine, mr, nr // machine.lanes).registers
    check_registers(machine, needed, f"tile mr={mr} nr={nr} of {workload}")


def apply(schedule: Schedule, workload: GemmWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :func:`tvmconv.algorithms.gemm.gemm.compute` in place."""
    product, output = schedule.get_sblock("product"), schedule.get_sblock("output")
    rows, vectors = config.int("mc") // config.int("mr"), config.int("nr") // machine.lanes
    across = config["parallel"] == "n"
    p, i, v, lane, x = schedule.get_loops(product)
    tile, i = schedule.split(i, [None, config.int("mr")])
    slivers, columns = int(schedule.get(tile).extent), int(schedule.get(v).extent) // vectors
    block, tile = schedule.split(tile, [None, min(rows, slivers)])
    sliver, v = schedule.split(v, [None, vectors])
    width = min(config.int("nc") // config.int("nr"), columns)
    panel, sliver = schedule.split(sliver, [None, width])
    tasks = min(config.int("tasks"), width)
    task, sliver = schedule.split(sliver, [tasks, None])
    x, inner = schedule.split(x, [None, config.int("unroll")])
    schedule.reorder(panel, p, block, task, sliver, tile, x, inner, i, v, lane)
    mark_cases(schedule, panel, p, block, task, sliver, tile)
    mark_parallel(schedule, *((panel,) if across else (block, task)))
    if not config["prepacked"]:
        _pack_b(schedule, p, machine, parallel=not across and machine.cores > 1)
    pack_a(schedule, block if across or tasks == 1 else task, machine)
    register_tile(schedule, product, output, at=tile, reduction=x, tile=(inner, i, v), lane=lane)
    if config.int("ahead"):
        mark_stream(schedule, x, config.int("ahead"))
    if config.int("fetch"):
        mark_panel(schedule, tile)
        mark_result(schedule, tile)


def pack_a(schedule: Schedule, at: LoopRV, machine: Machine) -> None:
    """Slivers of A: rows along k become columns along m, in squares of registers."""
    block = schedule.get_sblock("pack_a")
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, sliver, x, row = schedule.get_loops(block)
    mark_cases(schedule, sliver)
    if int(schedule.get(x).extent) % machine.lanes:
        return
    _, x = schedule.split(x, [None, machine.lanes])
    schedule.reorder(row, x)
    mark_transpose(schedule, row)
    schedule.vectorize(x)


def _pack_b(schedule: Schedule, at: LoopRV, machine: Machine, parallel: bool) -> None:
    """Slivers of B, a vector at a time."""
    block = schedule.get_sblock("pack_b")
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, sliver, _, column = schedule.get_loops(block)
    mark_cases(schedule, sliver)
    if parallel:
        mark_parallel(schedule, sliver)
    piece, column = schedule.split(column, [None, machine.lanes])
    schedule.unroll(piece)
    schedule.vectorize(column)
