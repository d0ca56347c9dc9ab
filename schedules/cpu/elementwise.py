"""Element-wise and other injective functions: the rule of last resort."""

from __future__ import annotations

from math import prod

from tvmconv.core.stored_types import numpy_type
from tvmconv.machines.record import Machine
from tvmconv.operators.lookup import LOOKUP
from tvmconv.schedules.common.nest import (
    PARALLEL_ELEMENTS,
    Block,
    blocks,
    inline_injective,
    parallelize,
    vectorize_loop,
)
from tvmconv.schedules.common.threads import bands_outside
from tvmconv.tir.general.axes import collapsible_axes
from tvmconv.tir.general.collapse_axes import collapse_axes
from tvmconv.tir.general.cut_axes import cut_axes
from tvmconv.tir.general.integer_moves import integer_moves
from tvmconv.tir.general.rewrite import is_static, item_bytes, nodes_of
from tvmconv.tvm_api.types import LoopRV, PrimFunc, Schedule

# dimensions of a tensor of channel blocks, and loops over its blocks and rows
_BLOCKED, _PLANE = 5, 2


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function whose blocks, after inlining, are all spatial.

    1. Intermediates are inlined.
    2. If every access runs over neighboring axes in storage order, they become one axis. Short
       image rows then do not leave short vectors.
    3. The innermost loop is vectorized, and threads share the outer loops. If outer iterations are
       few, threads share the vectors. Windows over one image may be shared by bands of rows.
    """
    found = collapsed(func)
    if not all(block.is_spatial and all(block.extents) for block in blocks(found)):
        return None
    image = _blocked_image(func, machine)
    for block in blocks(found):
        if not (image and _by_rows(found, block, machine, image)):
            spatial_block(found, block, machine)
    return found


def collapsed(func: PrimFunc, *, keep_roots: bool = False) -> Schedule:
    """A schedule of a function whose intermediates are inlined and whose nests have few axes.

    ``keep_roots`` is as in :func:`~tvmconv.schedules.common.nest.inline_injective`.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule, keep_roots=keep_roots)
    found = collapse_axes(cut_axes(schedule.mod["main"]))
    return Schedule(integer_moves(found), enable_check=False)


def _blocked_image(func: PrimFunc, machine: Machine) -> tuple[int, int] | None:
    """Blocks and rows, if the result is one image of channel blocks for several threads."""
    if not is_static(func):
        return None
    shape = [int(extent) for extent in func.params[-1].shape]
    if machine.cores == 1 or len(shape) != _BLOCKED or shape[0] != 1:
        return None
    return shape[1], shape[2]


def _by_rows(schedule: Schedule, block: Block, machine: Machine, image: tuple[int, int]) -> bool:
    """Schedule windows over such an image by bands of rows, if they pay."""
    first = collapsible_axes(schedule.get(block.rv))
    if block.work < PARALLEL_ELEMENTS or first < _PLANE or block.extents[:2] != image[:2]:
        return False
    source = schedule.get(block.rv).reads[0].source
    read = prod(int(extent) for extent in source.shape) * numpy_type(str(source.dtype)).itemsize
    row_bytes = read // prod(image[:2])
    blocks_, rows = block.loops[:2]
    outer = bands_outside(schedule, blocks_, rows, machine, row_bytes, overlap=True)
    if len(outer) == _PLANE:
        return False
    inner = schedule.fuse(*block.loops[first:])
    parallelize(schedule, outer[:_PLANE], block.work, machine.cores)
    vectorize_loop(schedule, inner, machine.lanes)
    return True


def shared_loops(extents: list[int], machine: Machine) -> int:
    """How many of the outer loops are fused to the loop that threads share.

    A fused loop over all vectors would take two or three divisions for each vector, half of the
    instructions of a pooling window.
    """
    enough = 4 * machine.cores if machine.cores > 1 else 1
    counts = range(1, len(extents) + 1)
    return next((count for count in counts if prod(extents[:count]) >= enough), len(extents))


def _fusible(schedule: Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """The outermost loops that can become one: a marked loop cannot be fused with others."""
    nodes = [schedule.get(loop) for loop in loops]
    marked = next((place for place, node in enumerate(nodes) if node.annotations), None)
    if marked is None:
        return loops
    if all(int(node.extent) == 1 for node in nodes[:marked]):
        return [loops[marked]]
    return loops[:marked]


def _is_of_bytes(schedule: Schedule, block: Block) -> bool:
    """Whether all values of a block are single bytes, or indices of a table."""
    from tvmconv.tvm_api import tirx

    statement = schedule.get(block.rv)
    if LOOKUP in statement.annotations:
        return True
    regions = (*statement.reads, *statement.writes)
    short = all(item_bytes(str(region.source.dtype)) == 1 for region in regions)
    return short and not nodes_of(statement.body, tirx.Cast)


def _lanes(schedule: Schedule, block: Block, machine: Machine) -> int:
    """Elements of a vector; elements of few bytes fill whole vectors where nothing is wider."""
    from tvmconv.tvm_api import ir

    if _is_of_bytes(schedule, block):
        return machine.vector_bytes
    statement = schedule.get(block.rv)
    (result,) = statement.writes[:1]
    halves = str(result.source.dtype) == "int16" and isinstance(
        getattr(statement.body, "value", None), ir.TensorLoad
    )
    return machine.vector_bytes // 2 if halves else machine.lanes


def spatial_block(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Parallel outer loops and a vectorized inner one for a block without reduction."""
    loops, extents = list(block.loops), list(block.extents)
    if not loops:
        return
    lanes = _lanes(schedule, block, machine)
    first = collapsible_axes(schedule.get(block.rv))
    wide = machine.cores > 1 and block.work >= PARALLEL_ELEMENTS
    count = prod(extents[first:])
    while wide and first < len(loops) - 1 and prod(extents[:first]) < 2 * machine.cores:
        if count % lanes == 0:
            break
        first, count = first + 1, count // extents[first]
    outer, inner = loops[:first], schedule.fuse(*loops[first:])
    if prod(extents[:first]) >= 2 * machine.cores or not wide:
        if outer:
            shared = outer[: shared_loops(extents[:first], machine)]
            parallelize(schedule, _fusible(schedule, shared), block.work, machine.cores)
        vectorize_loop(schedule, inner, lanes)
        return
    vectors = vectorize_loop(schedule, inner, lanes)
    if vectors is None:
        return
    if count % lanes == 0:
        vectors = schedule.fuse(*outer, vectors)
    schedule.parallel(vectors)
