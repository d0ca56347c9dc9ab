"""The packed GEMM by scalable vectors of columns.

The five loops of NEON code (:mod:`tvmconv.schedules.cpu.gemm`) surround a tile of ``mr`` rows by
some scalable vectors. FTEngine's tiles of 2VL x 8 and 2VL x 10 are among them (Tan 2023, section
4.2.4). A segment has four columns of C. A's rows are lanes of vectors. The panels of B are as wide
as the tile at run time (:mod:`tvmconv.tir.sve.interleaved_panels`). B that is packed before the
call has panels of one segment, which a vector gathers: they serve every vector length.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.scalable.gemm import MOST_VECTORS, default_config, tile_registers
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.cpu import gemm as neon
from tvmconv.schedules.sve.panels import make_room
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments
from tvmconv.tvm_api.types import LoopRV, Schedule

__all__ = ["KNOBS", "apply", "check", "default_config"]

# steps of a panel that are copied at once
_PACKED = 4

KNOBS: Knobs[GemmWorkload] = Knobs(
    (
        *neon.KNOBS,
        Knob(
            "vectors",
            "scalable vectors of columns of the register tile, with nr of one segment; 0: NEON "
            "code of nr columns",
            lambda w, machine: range(MOST_VECTORS + 1),
            neutral=0,
        ),
    ),
    retired=neon.KNOBS.retired,
)


def check(workload: GemmWorkload, machine: Machine, config: Config) -> None:
    """The tile fits the registers, and ``nr`` is one segment."""
    neon.check(workload, machine, config)
    vectors, mr = config.int("vectors"), config.int("mr")
    if not vectors:
        return
    tile = f"tile mr={mr} vectors={vectors} of {workload}"
    if workload.types.is_integer:
        raise ConfigError(f"{tile} is for FP32 only. Expected vectors=0. Set vectors to 0.")
    if not 0 < vectors <= MOST_VECTORS or config.int("nr") != machine.lanes:
        raise ConfigError(
            f"{tile} is not possible: {config}. Expected vectors up to {MOST_VECTORS}, and "
            f"nr={machine.lanes}. Change vectors or nr."
        )
    if config.int("ahead") or config.int("fetch"):
        raise ConfigError(
            f"{tile} prefetches nothing: {config}. Expected ahead and fetch of 0. Set them to 0."
        )
    check_registers(machine, tile_registers(mr, vectors, machine), tile)


def apply(schedule: Schedule, workload: GemmWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :func:`tvmconv.algorithms.gemm.gemm.compute` in place."""
    vectors, kc = config.int("vectors"), config.int("kc")
    if not vectors:
        neon.apply(schedule, workload, machine, config)
        return
    product, output = schedule.get_sblock("product"), schedule.get_sblock("output")
    across = config["parallel"] == "n"
    p, i, v, lane, x = schedule.get_loops(product)
    tile, i = schedule.split(i, [None, config.int("mr")])
    slivers, columns = int(schedule.get(tile).extent), int(schedule.get(v).extent)
    rows = min(config.int("mc") // config.int("mr"), slivers)
    block, tile = schedule.split(tile, [None, rows])
    panel, v = schedule.split(v, [None, min(config.int("nc") // machine.lanes, columns)])
    x, inner = schedule.split(x, [None, config.int("unroll")])
    schedule.reorder(panel, p, block, v, tile, x, inner, i, lane)
    mark_cases(schedule, panel, p, block)
    mark_parallel(schedule, *((panel,) if across else (block,)))
    if not config["prepacked"]:
        _pack_b(schedule, p, machine, config, parallel=not across and machine.cores > 1)
    neon.pack_a(schedule, block, machine)
    register_tile(schedule, product, output, at=tile, reduction=x, tile=(inner, i), lane=lane)
    mark_segments(schedule, v, vectors, kc)


def _pack_b(
    schedule: Schedule, at: LoopRV, machine: Machine, config: Config, parallel: bool
) -> None:
    """Pack the panels of a part of the reduction, some steps of all panels at a time."""
    block = schedule.get_sblock("pack_b")
    schedule.compute_at(block, at, preserve_unit_loops=True)
    *_, panel, x, lane = schedule.get_loops(block)
    steps = _PACKED if config.int("kc") % _PACKED == 0 else 1
    x, step = schedule.split(x, [None, steps])
    schedule.reorder(x, panel, step, lane)
    if parallel:
        mark_parallel(schedule, x)
    schedule.unroll(step)
    schedule.vectorize(lane)
    make_room(schedule, block, config.int("vectors"), config.int("kc"), machine)
    mark_segments(schedule, panel, config.int("vectors"), config.int("kc"))
