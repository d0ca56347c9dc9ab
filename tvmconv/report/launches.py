"""The kernels that a model for a GPU launches, with their resources on a multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.core.decision import Decision, KernelCall
from tvmconv.core.launch import Launch
from tvmconv.costs.cuda.memory import least_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.report.table import Column, Table, plain

_LAUNCHES = (
    Column("layer", "layer"),
    Column("launched", "kernel"),
    *plain("grid", "block", "registers"),
    Column("shared_bytes", "shared B"),
    Column("spill_bytes", "spills B"),
    Column("blocks_resident", "blocks/SM"),
    Column("waves", "waves", ".2f"),
    Column("multiply_add_share", "FFMA %", ".1f", 100),
)
LEGEND = (
    "% of limit: the unavoidable share of the predicted time. It is the longer time of all FMA at "
    "the GPU's peak and of all bytes through its memory. blocks/SM: blocks on a multiprocessor at "
    "a time. waves: how often all multiprocessors are filled. FFMA %: share of FMA in the "
    "instructions of the main loop, or - without such a loop or without nvdisasm at the build."
)
# units of allocation, and the bytes of shared memory that the system reserves for each block
_REGISTER_UNIT, _SHARED_UNIT, _SHARED_SYSTEM = 256, 128, 1024


def launches_table(calls: Sequence[KernelCall], machine: CudaMachine) -> Table:
    """A row for each launch, in order; all figures are static."""
    rows = [_row(call, launch, machine) for call in calls for launch in call.launches]
    built = f"ptxas compiled them for {', '.join(machine.architectures)}"
    most = ", the most of each" if machine.others else ""
    title = f"Launches, as {built}{most}; tiles and waves for {machine.model}"
    return Table("launches", title, _LAUNCHES, rows)


def launch_facts(calls: Sequence[KernelCall], machine: CudaMachine) -> dict[str, Any]:
    """The GPU, and totals over all launches of a call."""
    launches = [launch for call in calls for launch in call.launches]
    return {
        "gpu": machine.model,
        "launches_of_a_call": len(launches),
        "launches_that_spill": sum(launch.spill_bytes > 0 for launch in launches),
    }


def blocks_resident(launch: Launch, machine: CudaMachine) -> int:
    """Blocks of a launch that one multiprocessor holds at a time; 0 if none fits."""
    warps = -(-launch.threads // machine.warp)
    of_warp = -(-launch.registers * machine.warp // _REGISTER_UNIT) * _REGISTER_UNIT
    shared = launch.shared_bytes + launch.dynamic_shared_bytes + _SHARED_SYSTEM
    shared = -(-shared // _SHARED_UNIT) * _SHARED_UNIT
    return min(
        machine.blocks_resident,
        machine.threads // (warps * machine.warp),
        machine.registers // (warps * of_warp) if of_warp else machine.blocks_resident,
        machine.shared_bytes // shared,
    )


def limit_share(decision: Decision, machine: CudaMachine) -> float:
    """The share of :func:`least_cycles` in the predicted time of a layer."""
    chosen = decision.chosen
    return least_cycles(decision.workload, machine, chosen.precision) / chosen.cycles


def _row(call: KernelCall, launch: Launch, machine: CudaMachine) -> dict[str, Any]:
    resident = blocks_resident(launch, machine)
    return {
        "layer": call.layer or call.operator,
        "kernel": call.kernel,
        "launched": launch.kernel,
        "grid": _extents(launch.grid),
        "block": _extents(launch.block),
        "registers": launch.registers,
        "shared_bytes": launch.shared_bytes + launch.dynamic_shared_bytes,
        "spill_bytes": launch.spill_bytes,
        "blocks_resident": resident,
        "waves": launch.blocks / (resident * machine.multiprocessors) if resident else None,
        "multiply_add_share": launch.multiply_add_share or None,
    }


def _extents(extents: Sequence[int]) -> str:
    """``132``, ``16x8``: without trailing extents of 1."""
    shown = list(extents)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))
