"""im2win convolution, for every CPU family.

Loops, outermost first (Algorithm 6 of the thesis). Lanes are output channels, not the reduction,
which avoids horizontal sums and a minimum kernel height:

1. image, region of output rows: parallel; the region's strips are written, then
2. group of output blocks, whose weights stay in cache for the region;
3. tile of rows and columns;
4. input block, kernel column, kernel row, channel of the block: the reduction, one contiguous run;
5. row, column and output block of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from tvmconv.algorithms.direct.direct import input_span
from tvmconv.algorithms.gemm.im2win import columns, region_rows
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import OUT_BLOCKS
from tvmconv.costs.cuts import divisors, largest_divisor
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.tir.annotations import mark_cases, mark_parallel
from tvmconv.tvm_api.types import Schedule

# Cycles of copying one vector to a strip. Latency of a strip's line in every tile that reads it.
# Wait for weights relative to direct convolution, which prefetches them. The last two were fitted
# to im2win against direct on 120 layers, docs/im2win.md.
_COPY_CYCLES = 3.0
_LINE_CYCLES = 2.0
_WEIGHTS_SHOWN = 1.5


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        OUT_BLOCKS,
        Knob(
            "oh",
            "rows of the register tile",
            lambda w, machine: range(1, min(w.out_height, 4) + 1),
        ),
        Knob(
            "ow",
            "columns of the register tile",
            lambda w, machine: range(1, min(w.out_width, machine.vector_registers) + 1),
        ),
        Knob(
            "rows",
            "output rows of a region, a divisor of the output's; rounded up to whole tiles",
            lambda w, machine: divisors(w.out_height),
            neutral=1,
        ),
    )
)


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The cheapest tile of one row, and regions whose strips fit half of L2."""
    model = TileModel(workload, machine)
    oc, oh, ow = min(model.tiles(), key=lambda tile: (model.cycles(*tile), tile[1], -tile[2]))
    strip = 4 * columns(workload) * workload.kernel_h * machine.blocks(workload.in_channels)
    rows = max(1, machine.l2_bytes // 2 // (strip * machine.channel_block))
    tasks = -(-4 * machine.cores // workload.batch) if machine.cores > 1 else 1
    rows = min(rows, max(1, workload.out_height // tasks))
    return Config.of(oc=oc, oh=oh, ow=ow, rows=largest_divisor(workload.out_height, max(rows, oh)))


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """The register tile fits, and ``rows`` divides the image's rows."""
    oc, oh, ow, rows = (config.int(name) for name in ("oc", "oh", "ow", "rows"))
    if min(oc, oh, ow, rows) < 1 or workload.out_height % rows:
        raise ConfigError(
            f"oc, oh and ow of {workload} must be 1 or more, and rows={rows} must divide its "
            f"{workload.out_height} output rows: {config}"
        )
    registers = TileModel(workload, machine).registers(oc, oh, ow)
    check_registers(machine, registers, f"tile oc={oc} oh={oh} ow={ow} of {workload}")


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.gemm.im2win.Im2win` in place."""
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, m, x, lane, cb, v, u, c = schedule.get_loops(block)
    row, row_tile = schedule.split(m, [None, config.int("oh")])
    tiles = -(-region_rows(workload, config) // config.int("oh"))
    region, row = schedule.split(row, [None, tiles])
    group, kb_tile = schedule.split(kb, [None, config.int("oc")])
    x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
    tile = (row_tile, x_tile, kb_tile)
    schedule.reorder(n, region, group, row, x_outer, cb, v, u, c, *tile, lane)
    windows = schedule.get_sblock("windows")
    schedule.compute_at(windows, region, preserve_unit_loops=True)
    schedule.vectorize(schedule.get_loops(windows)[-1])
    mark_parallel(schedule, n, region)
    mark_cases(schedule, group, x_outer)
    if config.int("oh") > 1:
        mark_cases(schedule, row)
    register_tile(schedule, block, output, at=x_outer, reduction=cb, tile=tile, lane=lane)


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of one call, by :func:`explain_cost`."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The GEMM of :class:`TileModel`, and the copy to strips as a transform."""
    w = workload
    vectors = w.batch * w.out_height * columns(w) * w.kernel_h * machine.blocks(w.in_channels)
    regions = w.batch * -(-w.out_height // region_rows(w, config))
    idle = -(-regions // machine.cores) * machine.cores / regions
    parts: dict[str, float] = TileModel(w, machine).parts(config)
    parts["transforms"] = _COPY_CYCLES * vectors / machine.cores
    lines = _strip_reads(w, machine, config) * 4 * machine.channel_block / machine.line_bytes
    parts["activations"] += _LINE_CYCLES * lines / machine.cores
    parts["weights"] *= _WEIGHTS_SHOWN
    return {name: cycles * idle for name, cycles in parts.items()}


def _strip_reads(workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
    """Vectors of strips that all tiles read, each once a tile."""
    w, (oc, oh, ow) = workload, (config.int(name) for name in ("oc", "oh", "ow"))
    groups = -(-machine.blocks(w.out_channels) // oc)
    tiles = w.batch * groups * -(-w.out_height // oh) * -(-w.out_width // ow)
    wide = len({x * w.stride_w + v * w.dilation_w for x in range(ow) for v in range(w.kernel_w)})
    return tiles * oh * wide * w.kernel_h * input_span(w, machine)
