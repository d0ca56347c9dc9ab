"""Software prefetches inside a register tile's innermost reduction loop.

A part of :func:`tvmconv.tir.general.specialize.Specialize`. In a blocked layout the hardware
prefetchers miss two streams. The input of a tile is a short piece of a row, and the piece of the
next channel block is ``H * W * c`` elements further on. The weights of the next group of output
blocks are contiguous, but are needed all at once, when the first tile of that group starts. Each
reduction step prefetches one line of each well ahead, in issue slots that the FMAs leave free.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import (
    TO_L1,
    TO_L2,
    byte_size,
    prefetch,
    substitute,
    uses,
    variables,
)
from tvmconv.tir.general.scope import Scope, is_unrolled

_LINE = 64


def prefetches(loop: Any, scope: Scope, *, inputs: bool, weights: bool) -> list[Any]:
    """Prefetches of inputs or weights, over the old variables, for each iteration of a loop.

    It is the innermost reduction loop, over the channels of one block. Its body accumulates
    ``input * weight``. ``scope`` is the scope around it.
    """
    tile: list[Any] = []
    loads: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.For):
            tile.append(node)
        elif isinstance(node, tirx.BufferStore) and isinstance(node.value, tirx.Add):
            tvm_ffi.structural_walk(node.value.b, (ir.expr.TensorLoad, loads.append))

    tvm_ffi.structural_walk(loop.body, ((tirx.For, tirx.BufferStore), look))
    if len(loads) < 2:
        return []
    lanes = next(nest.loop_var for nest in tile if not is_unrolled(nest))
    *values, weight = sorted(loads, key=lambda load: _uses(load, lanes))
    value, *others = values
    # lanes may select between values of several groups, which are not one stream
    if any(_uses(load, lanes) or not load.source.same_as(value.source) for load in others):
        return []
    # in a tap that is entirely padding, the multiplied value is the zero point
    inputs = inputs and not others and len(value.indices) > 1
    found = _input_line(value, weight, loop, tile, scope) if inputs else []
    return found + (_weight_line(weight, lanes, scope) if weights else [])


def _input_line(load: Any, weight: Any, loop: Any, tile: list[Any], scope: Scope) -> list[Any]:
    """The tile's lines of the next channel block; after the last block, the next tile's lines."""
    names = variables(load.indices[1])
    block = next(((v, e) for v, e in scope.loops if any(v.same_as(n) for n in names)), None)
    if block is None or not scope.is_loop(block[0]):
        return []
    (var, count), step = block, int(loop.extent)
    more = var + 1 < count
    values = {var: tirx.Select(more, var + 1, 0), loop.loop_var: 0}
    pixels = load.indices[-2]
    for outer, _ in reversed(scope.loops):
        inside = any(outer.same_as(v) for v in variables(pixels)) and scope.is_loop(outer)
        if inside and not _uses(weight, outer):
            values[outer] = tirx.Select(more, outer, outer + 1)
            break
    used = [n for n in tile if is_unrolled(n) and _uses(load, n.loop_var)]
    total = prod(int(nest.extent) for nest in used)
    # neighboring positions of narrow types share a line. In FP32 two positions share a line if
    # vectors are short, and a prefetch of each was faster
    pixel = byte_size(load.source) // prod(map(int, load.source.shape[:-1]))
    shared = 1 if str(load.source.dtype) == "float32" else max(1, _LINE // pixel)
    result = []
    for first in range(0, -(-total // shared), step):
        rest = (loop.loop_var + first) * shared
        for nest in reversed(used):
            values[nest.loop_var] = rest % int(nest.extent) if nest is not used[0] else rest
            rest = rest // int(nest.extent)
        result.append(prefetch(substitute(load, values), TO_L1))
    return result


def _weight_line(load: Any, lanes: Any, scope: Scope) -> list[Any]:
    """The next group's weights, spread over the tiles that use this group's weights.

    If a loop around the tiles cuts the reduction into parts, these are the next part's weights,
    which follow in memory.

    The buffer's dimensions are groups, the reduction's dimensions, vectors of a step, and lanes. If
    a lane is a dword of several elements, the elements are the last dimension.
    """
    names = variables(load.indices[0])
    order = [v for v, _ in scope.loops]
    group = next((v for v in order if any(v.same_as(n) for n in names)), None)
    if group is None:
        return []
    behind = next(i for i, v in enumerate(order) if v.same_as(group)) + 1
    tiles, index = 1, 0
    part, parts = 0, 1
    inner = scope.loops[behind:]
    around = max((i for i, (v, e) in enumerate(inner) if e > 1 and not _uses(load, v)), default=0)
    for place, (var, extent) in enumerate(inner):
        if extent > 1 and not _uses(load, var):
            tiles, index = tiles * extent, index * extent + var
        elif extent > 1 and place < around and uses(load.indices[1], var):
            part, parts = var, extent
    shape = [int(extent) for extent in load.source.shape]
    lane = next(i for i, index in enumerate(load.indices) if uses(index, lanes))
    vectors, reduction = shape[lane - 1], slice(1, lane - 1)
    # number of reduction steps of a tile, and the index of this step
    position, steps = 0, 1
    for extent, i in zip(shape[reduction], list(load.indices)[reduction], strict=True):
        position, steps = position * extent + i, steps * extent
    steps //= parts
    size, result = prod(shape[lane:]), []
    for number in range(-(-vectors // tiles)):
        line = (index * vectors // tiles + number) * steps + position - part * steps
        if parts > 1:
            line = (part + 1) * steps * vectors + line
        # the offset is not split into indices: LLVM would keep the divisions of each step
        first = [load.indices[0] + int(parts == 1), *[0] * (len(shape) - 2), line * size]
        result.append(prefetch(tirx.BufferLoad(load.source, first), TO_L2))
    return result


def _uses(load: Any, var: Any) -> bool:
    return any(uses(index, var) for index in load.indices)
