"""Direct convolution on x86: AVX2 and AVX-512."""

from __future__ import annotations

from typing import Any

from tvmconv.algorithms.direct import flattened
from tvmconv.config import Config, KnobValue
from tvmconv.errors import ConfigError
from tvmconv.machine import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.specialise import mark_cases, mark_parallel, mark_taps
from tvmconv.workload import Conv2dWorkload


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The tile with the fewest wasted cycles by the model in :func:`_tile_cycles`."""
    w, blocks = flattened(workload), machine.blocks(workload.out_channels)
    tiles = [
        (oc, oh, ow)
        for oc in range(1, min(blocks, 6) + 1)
        for oh in range(1, min(w.out_height, 4) + 1)
        for ow in range(1, min(w.out_width, machine.vector_registers) + 1)
        if _registers(oc, oh, ow) <= machine.vector_registers
    ]

    def cost(tile: tuple[int, int, int]) -> tuple[float, int, int]:
        oc, oh, ow = tile
        cycles = 0.0
        for count_k, k in _pieces(blocks, oc):
            for count_h, h in _pieces(w.out_height, oh):
                for count_w, x in _pieces(w.out_width, ow):
                    cycles += count_k * count_h * count_w * _tile_cycles(k, h, x, machine)
        return cycles, oh, -oc * oh * ow

    oc, oh, ow = min(tiles, key=cost)
    return Config.of(oc=oc, oh=oh, ow=ow)


def knobs(workload: Conv2dWorkload, machine: Machine) -> dict[str, tuple[KnobValue, ...]]:
    """Tile sizes in vectors; combinations beyond the register file are rejected by ``check``."""
    w = flattened(workload)
    blocks = machine.blocks(workload.out_channels)
    return {
        "oc": tuple(range(1, min(blocks, 6) + 1)),
        "oh": tuple(range(1, min(w.out_height, 4) + 1)),
        "ow": tuple(range(1, min(w.out_width, machine.vector_registers) + 1)),
    }


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Knobs are positive and the tile fits the register file."""
    oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
    if min(oc, oh, ow) < 1:
        raise ConfigError(f"tile sizes of {workload} must be 1 or more; got {config}")
    registers = _registers(oc, oh, ow)
    if registers > machine.vector_registers:
        raise ConfigError(
            f"tile oc={oc} oh={oh} ow={ow} of {workload} needs {registers} vector registers, "
            f"{machine.name} has {machine.vector_registers}; take a smaller tile"
        )


def apply(schedule: Any, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.direct.Direct` in place."""
    if flattened(workload) != workload:
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    n, kb, h, w, lane, cb, r, s, c = schedule.get_loops(block)
    kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
    h_outer, h_tile = schedule.split(h, [None, config.int("oh")])
    w_outer, w_tile = schedule.split(w, [None, config.int("ow")])
    schedule.reorder(n, kb_outer, h_outer, w_outer, cb, r, s, c, h_tile, w_tile, kb_tile, lane)
    mark_parallel(schedule, n, kb_outer, h_outer)
    mark_cases(schedule, kb_outer, w_outer)
    if config.int("oh") > 1:
        mark_cases(schedule, h_outer)
    mark_taps(schedule, r, s)
    register_tile(
        schedule,
        block,
        output,
        at=w_outer,
        reduction=cb,
        tile=(h_tile, w_tile, kb_tile),
        lane=lane,
    )


def predicted_seconds(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of all tiles at a nominal 3 GHz, divided among the cores."""
    w, blocks = flattened(workload), machine.blocks(workload.out_channels)
    taps = workload.in_channels // workload.groups * workload.kernel_h * workload.kernel_w
    cycles = 0.0
    for count_k, k in _pieces(blocks, config.int("oc")):
        for count_h, h in _pieces(w.out_height, config.int("oh")):
            for count_w, x in _pieces(w.out_width, config.int("ow")):
                cycles += count_k * count_h * count_w * _tile_cycles(k, h, x, machine)
    return workload.batch * taps * cycles / (3.0e9 * machine.cores)


def _registers(oc: int, oh: int, ow: int) -> int:
    """Accumulators, the weights of one input channel, one broadcast input value."""
    return oh * ow * oc + oc + 1


def _pieces(extent: int, tile: int) -> list[tuple[int, int]]:
    """(count, size) of the full tiles and of the smaller last one."""
    full, rest = divmod(extent, tile)
    return [(count, size) for count, size in ((full, tile), (1 if rest else 0, rest)) if count]


def _tile_cycles(oc: int, oh: int, ow: int, machine: Machine) -> float:
    """Cycles of one input channel and tap: multiply-adds, latency or loads, whichever is most."""
    pixels = oh * ow
    fma = pixels * oc / machine.fma_units
    latency = machine.fma_latency
    # a single output block reads its input from memory in every multiply-add
    loads = (pixels + oc) / 2 if oc > 1 else (pixels + oc) / 2 * 1.15
    return max(fma, latency, loads) + 0.5
