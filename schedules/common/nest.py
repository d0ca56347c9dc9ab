"""Inspects and splits loop nests of operators other than convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvmconv.tir.annotations import mark_tail
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# Work below this many elements runs on one thread: waking the pool takes about as long.
PARALLEL_ELEMENTS = 16384


@dataclass(frozen=True)
class Block:
    """One block of a function in schedulable form.

    ``kinds`` has ``S`` for each spatial and ``R`` for each reduction axis, outermost first, and
    ``?`` for other axes (scans, opaque blocks). ``rv`` is TVM's handle. ``loops`` surround the
    block, one for each axis. Their ``extents`` are 0 if not constant.
    """

    name: str
    rv: BlockRV
    kinds: str
    loops: tuple[LoopRV, ...]
    extents: tuple[int, ...]

    @property
    def is_spatial(self) -> bool:
        """Whether all axes are spatial."""
        return set(self.kinds) <= {"S"}

    @property
    def is_reduction(self) -> bool:
        """Whether all axes are spatial or reductions, and at least one is a reduction."""
        return "R" in self.kinds and set(self.kinds) <= {"S", "R"}

    @property
    def work(self) -> int:
        """Iterations of the whole nest."""
        return prod(self.extents)

    def iterations(self, kind: str) -> int:
        """Iterations over all axes of one kind, ``S`` or ``R``."""
        pairs = zip(self.extents, self.kinds, strict=True)
        return prod(extent for extent, each in pairs if each == kind)


def blocks(schedule: Schedule) -> list[Block]:
    """The blocks of a function, in program order."""
    root = schedule.get_sblock("root")
    return [inspect(schedule, rv) for rv in schedule.get_child_blocks(root)]


def inspect(schedule: Schedule, rv: BlockRV) -> Block:
    """Describe one block."""
    from tvmconv.tvm_api import tirx

    statement = schedule.get(rv)
    kinds = {0: "S", 2: "R"}
    loops = schedule.get_loops(rv)
    extents = []
    for loop in loops:
        extent = schedule.get(loop).extent
        extents.append(int(extent) if isinstance(extent, tirx.IntImm) else 0)
    axes = "".join(kinds.get(int(axis.iter_type), "?") for axis in statement.iter_vars)
    if len(axes) != len(loops):
        axes = "?" * len(loops)
    return Block(str(statement.name_hint), rv, axes, tuple(loops), tuple(extents))


def annotation(schedule: Schedule, block: Block, key: str) -> Any:
    """A value that the tensor expression attached to a block, or None."""
    value = schedule.get(block.rv).annotations.get(key)
    return str(value) if isinstance(value, str) else value


def has_operator(schedule: Schedule, block: Block, *names: str) -> bool:
    """Whether the block carries one of these ``tvmconv.operator`` marks."""
    return annotation(schedule, block, "tvmconv.operator") in names


def vectorize_loop(schedule: Schedule, loop: LoopRV, lanes: int) -> LoopRV | None:
    """Vectorize a loop; a remainder becomes separate code. Returns the outer part, if any.

    Loops shorter than a vector become one short vector.
    """
    extent = int(schedule.get(loop).extent)
    if extent <= lanes:
        if extent > 1:
            schedule.vectorize(loop)
        return None
    outer, inner = schedule.split(loop, [None, lanes])
    if extent % lanes:
        mark_tail(schedule, outer, lanes, extent % lanes)
    schedule.vectorize(inner)
    return outer


def parallelize(schedule: Schedule, loops: Sequence[LoopRV], work: int, cores: int) -> LoopRV:
    """Fuse loops and share them between the threads, if there is enough work."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    if pays_threads(schedule, fused, work, cores):
        schedule.parallel(fused)
    return fused


def pays_threads(schedule: Schedule, loop: LoopRV, work: int, cores: int) -> bool:
    """Whether a loop has iterations for several threads, and enough work for them."""
    return cores > 1 and work >= PARALLEL_ELEMENTS and int(schedule.get(loop).extent) > 1


def inline_injective(schedule: Schedule, *, keep_roots: bool = False) -> None:
    """Inline every element-wise intermediate into its consumers, if TVM can.

    Reductions stay. An element-wise block after a reduction stays as the last block. With
    ``keep_roots``, roots of few numbers stay, which many elements would compute again.
    """
    from tvmconv.tvm_api.s_tir import ScheduleError, is_output_block

    found = blocks(schedule)
    most = max((block.work for block in found), default=0)
    for block in found:
        if not block.is_spatial or is_output_block(schedule, block.rv):
            continue
        if keep_roots and 2 * block.work <= most and _has_root(schedule, block):
            continue
        try:
            schedule.compute_inline(block.rv)
        except ScheduleError:
            continue


def _has_root(schedule: Schedule, block: Block) -> bool:
    from tvmconv.tir.general.rewrite import nodes_of
    from tvmconv.tvm_api import ir

    calls = nodes_of(schedule.get(block.rv).body, ir.Call)
    return any(str(getattr(call.op, "name", "")).endswith("sqrt") for call in calls)
