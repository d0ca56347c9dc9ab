"""Channel shuffles, and concatenations and slices that move channels between lanes."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import (
    PARALLEL_ELEMENTS,
    Block,
    blocks,
    has_operator,
    inline_injective,
    parallelize,
)
from tvmconv.tir.general.rewrite import substitute
from tvmconv.tvm_api.types import Expr, Index, PrimFunc, Schedule

# statements of unrolled code that compile within a second or two
_MOST_MOVES = 2048


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule channel shuffles, and concatenations and slices that cross block borders.

    1. For every block of the result the channel indices are constants. If each lane is one lane of
       an input, the block's vector is a permutation of whole input vectors.
    2. If other work is fused with the move, blocks and lanes are unrolled, and the compiler joins
       moves of neighboring lanes.
    3. Threads share image rows. A block's row is completed before the next block, so that only a
       few streams are open at a time.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    names = ("shuffle", "concat_unaligned", "slice_unaligned")
    found = blocks(schedule)
    if not any(has_operator(schedule, block, *names) for block in found):
        return None
    inline_injective(schedule)
    found = blocks(schedule)
    if len(found) != 1 or found[0].kinds != "SSSSS":
        return None
    block = found[0]
    if block.extents[1] * block.extents[4] > _MOST_MOVES or not all(block.extents):
        return None
    permuted = _permutations(schedule, block, func, machine)
    if permuted is not None:
        return Schedule(permuted, enable_check=False)
    n, channel_block, h, w, lane = block.loops
    schedule.reorder(n, h, w, channel_block, lane)
    schedule.unroll(channel_block)
    schedule.unroll(lane)
    parallelize(schedule, [n, h], block.work, machine.cores)
    return schedule


def _permutations(
    schedule: Schedule, block: Block, func: PrimFunc, machine: Machine
) -> PrimFunc | None:
    """The function as permutations of vectors, or None if a lane is not a plain move."""
    from tvmconv.tvm_api import ir, tirx

    statement = schedule.get(block.rv)
    store = statement.body
    batch, blocks_, height, width, lanes = block.extents
    if not isinstance(store, tirx.BufferStore):
        return None
    old = [axis.var for axis in statement.iter_vars]
    n, h, w = (
        ir.Var(name, var.ty) for name, var in zip("nhw", (old[0], old[2], old[3]), strict=True)
    )
    rows = []
    for index in range(blocks_):
        vector = _vector(store.value, dict(zip(old, (n, index, h, w), strict=False)), old[4], lanes)
        if vector is None:
            return None
        first = tirx.IntImm(str(n.ty.dtype), 0)
        lane = tirx.Ramp(first, tirx.IntImm(str(n.ty.dtype), 1), lanes)
        place = [n, tirx.IntImm(str(n.ty.dtype), index), h, w, lane]
        column = ir.Var("column", w.ty)
        body = substitute(tirx.BufferStore(store.buffer, vector, place), {w: column})
        rows.append(tirx.For(column, 0, width, tirx.ForKind.SERIAL, body))
    parallel = machine.cores > 1 and block.work >= PARALLEL_ELEMENTS
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    row = ir.Var("row", n.ty)
    body = tirx.SeqStmt(rows) if len(rows) > 1 else rows[0]
    body = substitute(body, {n: row // height, h: row % height})
    return func.with_body(tirx.For(row, 0, batch * height, kind, body))


def _vector(value: Expr, known: dict[Expr, Index], lane: Expr, lanes: int) -> Expr | None:
    """One block's vector as a permutation of input vectors."""
    from tvmconv.tvm_api import ffi, ir, sym, tirx

    analyzer = sym.Analyzer()
    sources: list[Expr] = []
    picks: list[int] = []
    for position in range(lanes):
        item = analyzer.simplify(substitute(value, {**known, lane: position}))
        if isinstance(item, tirx.FloatImm | tirx.IntImm):
            vector: Expr = tirx.Broadcast(item, lanes)
            offset = 0
        elif isinstance(item, ir.TensorLoad) and isinstance(item.indices[4], tirx.IntImm):
            *outer, inner = item.indices
            dtype = str(inner.ty.dtype)
            ramp = tirx.Ramp(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, 1), lanes)
            vector = tirx.BufferLoad(item.source, [*outer, ramp])
            offset = int(inner)
        else:
            return None
        found = (
            i for i, s in enumerate(sources) if ffi.structural_equal(s, vector, map_free_vars=False)
        )
        place = next(found, len(sources))
        if place == len(sources):
            sources.append(vector)
        picks.append(place * lanes + offset)
    if len(sources) == 1 and picks == list(range(lanes)):
        return sources[0]
    return tirx.Shuffle(sources, picks)
