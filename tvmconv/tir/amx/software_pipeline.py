"""Overlaps the epilogue of a group of tiles with the products of the next group."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm_ffi import structural_hash

from tvmconv.tir.amx.allocate_tiles import loaded_weights, stores_tile
from tvmconv.tir.annotations import TILE_PANEL
from tvmconv.tir.general.rewrite import (
    TO_L2,
    function_pass,
    local_buffer,
    prefetch,
    rebuilt,
    substitute,
)
from tvmconv.tir.general.scope import fresh

# beyond so many instructions, loops over the products of a group are not unrolled
_MOST_WRITTEN = 320
_TILE_BYTES, _LINE = 1024, 64


def SoftwarePipeline() -> Any:
    """A pass that multiplies the next group of tiles during the epilogue of this group.

    Pattern: a serial loop over groups of tiles. Its body initializes tiles, adds products, stores
    the accumulators to memory, and reads them there.

    Rewrite: a prologue computes the accumulators of the first group. Each iteration computes the
    accumulators of the next group in registers, runs the epilogue of this group on memory, then
    stores the accumulators. The last epilogue follows the loop. Short loops over products are
    unrolled, and their instructions are spread evenly among the statements of the epilogue.

    Why here: the epilogue of a group exceeds the reorder buffer, so that the matrix unit would wait
    for it. At this stage, statements that combine several vectors are adjacent.
    """
    return function_pass("amx.SoftwarePipeline", _tile_pipeline)


def _tile_pipeline(func: Any) -> Any:
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _pipelined)))


def _pipelined(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.SERIAL or not isinstance(loop.body, tirx.SeqStmt):
        return loop
    allocations = [part for part in loop.body.seq if isinstance(part, tirx.AllocBuffer)]
    parts = [part for part in loop.body.seq if not isinstance(part, tirx.AllocBuffer)]
    storing = [index for index, part in enumerate(parts) if stores_tile(part)]
    if not storing or int(loop.extent) < 2:
        return loop
    count = int(loop.extent)
    first, last = storing[0], storing[-1] + 1

    def at(statements: list[Any], iteration: Any) -> list[Any]:
        return [_copied(substitute(part, {loop.loop_var: iteration})) for part in statements]

    products, stores = _written(parts[:first]), parts[first:last]
    if TILE_PANEL in loop.annotations:
        products = _prefetching(products, loop.loop_var, int(loop.annotations[TILE_PANEL]))
        kept_marks = {k: v for k, v in loop.annotations.items() if k != TILE_PANEL}
        loop = rebuilt(loop, annotations=kept_marks)
    buffers, kept, epilogue = _kept(parts[last:])
    following = loop.loop_var + 1
    body = [*kept, *_spread(at(products, following), epilogue), *at(stores, following)]
    return tirx.SeqStmt(
        [
            *allocations,
            *buffers,
            *at(products, 0),
            *at(stores, 0),
            rebuilt(loop, extent=count - 1, body=tirx.SeqStmt(body)),
            *at([*kept, *epilogue], count - 1),
        ]
    )


def _prefetching(products: list[Any], group: Any, groups: int) -> list[Any]:
    """Products that also prefetch a share of the next panel of weights."""
    panel = sum(_weight_tiles(part) for part in products) * _TILE_BYTES
    lines = max(1, _TILE_BYTES // _LINE // groups)

    def look(statement: Any) -> Any:
        load = loaded_weights(statement)
        if load is None:
            return statement
        place = load.indices[0] + panel + group % groups * (lines * _LINE)
        hints = [
            prefetch(tirx.BufferLoad(load.source, [place + line * _LINE]), TO_L2)
            for line in range(lines)
        ]
        return tirx.SeqStmt([statement, *hints])

    return [tvm_ffi.structural_map(part, (tirx.Evaluate, look)) for part in products]


def _weight_tiles(statement: Any) -> int:
    """The number of tiles of weights that a statement loads."""
    if isinstance(statement, tirx.SeqStmt):
        return sum(_weight_tiles(part) for part in statement.seq)
    if isinstance(statement, tirx.For):
        return int(statement.extent) * _weight_tiles(statement.body)
    return int(loaded_weights(statement) is not None)


def _kept(epilogue: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """An epilogue that loads values of several statements only once, into its own variables.

    LLVM would load them again after each tile instruction, which might have changed memory. Returns
    the allocations, the statements that load, and the epilogue.
    """
    loads: dict[int, list[Any]] = {}
    walk = tvm_ffi.structural_walk
    for part in epilogue:
        found: list[Any] = []
        walk(part, (ir.TensorLoad, found.append))
        for key, load in {structural_hash(load): load for load in found}.items():
            loads.setdefault(key, []).append(load)
    written: list[Any] = []
    for part in epilogue:
        walk(part, (tirx.BufferStore, lambda store: written.append(store.buffer)))
    shared = {
        key: found[0]
        for key, found in loads.items()
        if len(found) > 1 and not any(found[0].source.same_as(buffer) for buffer in written)
    }
    first = [tirx.IntImm("int32", 0)]
    buffers = {key: local_buffer((1,), str(load.ty.dtype), "kept") for key, load in shared.items()}

    def look(load: Any) -> Any:
        buffer = buffers.get(structural_hash(load))
        return load if buffer is None else tirx.BufferLoad(buffer, first)

    rest = [tvm_ffi.structural_map(part, (ir.TensorLoad, look)) for part in epilogue]
    stores = [tirx.BufferStore(buffers[key], load, first) for key, load in shared.items()]
    return [tirx.AllocBuffer(buffer) for buffer in buffers.values()], stores, rest


def _written(products: list[Any]) -> list[Any]:
    """Statements with unrolled loops over tile instructions, unless these are too many."""
    found = [each for part in products for each in _iterations(part)]
    return found if len(found) <= _MOST_WRITTEN else products


def _iterations(statement: Any) -> list[Any]:
    if isinstance(statement, tirx.SeqStmt):
        return [each for part in statement.seq for each in _iterations(part)]
    if not isinstance(statement, tirx.For):
        return [statement]
    start, body = int(statement.min), statement.body
    return [
        each
        for value in range(start, start + int(statement.extent))
        for each in _iterations(substitute(body, {statement.loop_var: value}))
    ]


def _spread(products: list[Any], epilogue: list[Any]) -> list[Any]:
    """Products interleaved with the statements of an epilogue, products first."""
    done: list[Any] = []
    for index, statement in enumerate(epilogue):
        begin, end = (n * len(products) // len(epilogue) for n in (index, index + 1))
        done += [*products[begin:end], statement]
    return done


def _copied(statement: Any) -> Any:
    """A statement whose loops have their own variables."""

    def look(loop: Any) -> Any:
        var = fresh(loop.loop_var)
        body = substitute(loop.body, {loop.loop_var: var})
        return tirx.For(var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)

    return tvm_ffi.structural_map(statement, (tirx.For, look))
