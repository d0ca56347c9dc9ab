"""Block sizes of the packed GEMM from registers and caches, and its parameters."""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.algorithms.gemm.gemm import reduction_steps
from tvmconv.core.config import Config
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.microkernel import Microkernel, most_rows
from tvmconv.costs.cpu.panel_blocks import PanelBlocks
from tvmconv.costs.cpu.products import best_tile
from tvmconv.costs.cuts import balanced
from tvmconv.machines.record import Machine

# maximum inner steps of a part of the reduction
_STEPS = 1024


def half_cache(machine: Machine, mr: int, nr: int) -> dict[str, int]:
    """Block sizes of the paper's rule: each block fills half of its cache.

    A sliver of B is in L1, a block of A in a core's L2, and a panel of B in L3. Sizes are in
    floats; the paper counts vectors by mistake (section 4.2.2).
    """
    l1, l2, l3 = (b // 8 for b in (machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes))
    kc = l1 // nr
    return {"kc": kc, "mc": max(1, l2 // kc // mr) * mr, "nc": max(1, l3 // kc // nr) * nr}


def default_config(workload: GemmWorkload, machine: Machine, prepacked: bool = False) -> Config:
    """The cheapest register tile, and the blocks around it."""
    config = blocked(workload, machine, _tile(workload, machine))
    return config.replace(prepacked=prepacked)


def blocked(workload: GemmWorkload, machine: Machine, tile: Microkernel) -> Config:
    """Blocks around a tile that fill half of L2 and L3.

    The tile reads both slivers from L2 without delay, so that ``kc`` may exceed half of L1. C is
    then moved less often, and FMAs hardly hide its moves. Two slivers of B use up to a quarter
    of L2, one in use and one on its way. A block of A uses the rest of half of L2, or less if
    threads then get equal parts. Where M has too few rows, columns are split as well.
    """
    w, lanes, steps = workload, machine.lanes, reduction_steps(workload, machine)
    mr, nr = tile.rows, tile.vectors * lanes
    parts = -(-steps // max(lanes, min(_STEPS, machine.l2_bytes // 8 // (4 * nr))))
    kc = _rounded(-(-steps // parts), lanes) if steps > lanes else steps
    slivers, columns = -(-w.m // mr), -(-w.n // nr)
    block = _block(machine, slivers, columns, kc, tile)
    panel = balanced(columns, max(1, machine.l3_bytes // 8 // (kc * nr)))
    tasks = min(_tasks(machine, slivers, block), panel)
    return Config.of(
        mr=mr,
        nr=nr,
        kc=kc,
        mc=block * mr,
        nc=panel * nr,
        unroll=1,
        ahead=1024,
        fetch=1,
        tasks=tasks,
        parallel="m",
        prepacked=False,
    )


def _tile(workload: GemmWorkload, machine: Machine) -> Microkernel:
    """The cheapest tile; by lane, A has whole vectors of rows."""
    w, lanes = workload, machine.lanes
    tile = best_tile(machine, w.m, w.n, min(reduction_steps(w, machine), _STEPS))
    if not machine.code.by_lane or tile.rows < lanes:
        return tile
    most = most_rows(machine, tile.vectors) // lanes * lanes
    rows = _rounded(balanced(w.m, most), lanes)
    return Microkernel(machine, rows, tile.vectors)


def _block(machine: Machine, slivers: int, columns: int, kc: int, tile: Microkernel) -> int:
    """Slivers of A in a block: the best for caches by :class:`PanelBlocks`, or up to half of it.

    A smaller one is for threads, if the busiest then computes fewer slivers. Still smaller blocks
    would read B from L3 too often.
    """
    sliver_a, sliver_b = 4 * kc * tile.rows, 4 * kc * tile.vectors * machine.lanes
    most = -(-slivers // machine.cores)
    blocks = [
        PanelBlocks(machine, slivers, sliver_a, columns, 0, size, 2 * sliver_b, constants.GEMM_L2)
        for size in {balanced(slivers, limit) for limit in range(1, most + 1)}
    ]
    best = min(blocks, key=lambda block: (block.panel_cycles, block.block)).block
    near = [each for each in blocks if best <= 2 * each.block <= 2 * best]
    return min(near, key=lambda block: (_busiest(machine, block), -block.block)).block


def _busiest(machine: Machine, block: PanelBlocks) -> float:
    """Slivers of the busiest thread."""
    tasks = _tasks(machine, block.panels, block.block)
    pieces = -(-block.count * tasks // machine.cores)
    return min(block.panels, pieces * block.block / tasks)


def _tasks(machine: Machine, slivers: int, block: int) -> int:
    """Pieces of the columns, so that every thread has a block or a piece of one."""
    return -(-machine.cores // -(-slivers // block))


def transfer_ratio(workload: GemmWorkload, config: Config) -> float:
    """Operations for each value that moves between caches (the paper's equation 4.3).

    A block of A is read once. For each of the n columns, B is read for each inner step, and C is
    read and written for each row.
    """
    mc, kc, n = min(config.int("mc"), workload.m), config.int("kc"), workload.n
    return 2 * mc * kc * n / (mc * kc + (2 * mc + kc) * n)


def _rounded(extent: int, step: int) -> int:
    return -(-extent // step) * step


def _sizes(name: str, *sizes: int) -> Callable[[GemmWorkload, Machine], list[int]]:
    """The paper's sizes and the size of its rule, :func:`half_cache`."""
    return lambda w, machine: sorted({*sizes, half_cache(machine, 12, 2 * machine.lanes)[name]})


KNOBS: Knobs[GemmWorkload] = Knobs(
    (
        Knob(
            "mr",
            "rows of the register tile",
            lambda w, machine: range(1, machine.vector_registers - 1),
        ),
        Knob(
            "nr",
            "columns of the register tile, whole vectors",
            lambda w, machine: (machine.lanes * vectors for vectors in range(1, 7)),
        ),
        Knob("kc", "inner steps of a panel", _sizes("kc", 128, 256, 384, 512, 1024)),
        Knob("mc", "rows of a block of A", _sizes("mc", 56, 128, 144, 160, 168, 256, 336)),
        Knob("nc", "columns of a panel of B", _sizes("nc", 2048, 4096, 8192)),
        Knob("unroll", "inner steps written out", lambda w, machine: (1, 2, 4), neutral=1),
        Knob(
            "ahead",
            "bytes by which B is prefetched; 0: no prefetches",
            lambda w, machine: (0, 512, 1024, 2048, 4096),
            neutral=0,
        ),
        Knob(
            "fetch",
            "1 prefetches C's tile and the next sliver of B",
            lambda w, machine: (0, 1),
            neutral=0,
            closed=True,
        ),
        Knob(
            "tasks",
            "pieces of the columns for threads, in addition to the blocks of rows",
            lambda w, machine: (1, 2, 4, 8),
            neutral=1,
        ),
        Knob(
            "parallel",
            "axis that threads share: m, rows and tasks; n, panels of B, one for each NUMA node",
            lambda w, machine: ("m", "n"),
            neutral="m",
            closed=True,
        ),
        Knob(
            "prepacked",
            "whether B is an argument in packed form",
            lambda w, machine: (False, True),
            neutral=False,
            closed=True,
        ),
    )
)
