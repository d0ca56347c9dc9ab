"""Software prefetch of the panels of weights that a matrix product reads one after the other.

A product with few rows uses each weight a few times only: its time is that of the weights'
arrival. The hardware's prefetchers stop at every page. Where a panel is used once, one prefetch
per cache line, some kilobytes ahead, carries the stream across. Where several tiles use a panel,
each asks for its share of the next one, so that memory works all the time and not only while the
first tile waits.
"""

from __future__ import annotations

from math import prod
from typing import Any

# annotation that schedules put on the innermost reduction loop; its value is the distance in bytes
STREAM = "tvmconv.stream"
# annotation of the loop over the tiles that use one panel
PANEL = "tvmconv.panel"
_LINE = 64
_TO_L1, _TO_L2 = 3, 2


def prefetch_streams(func: Any) -> Any:
    """Prefetch, in every marked loop, the vector operand of its multiply-adds.

    Addresses behind the end of the operand are asked for as well; a prefetch never faults.

    Parameters
    ----------
    func
        ``tirx.PrimFunc`` without blocks, buffers not yet flattened.
    """
    import tvm_ffi
    from tvm import tirx

    found = False

    def look(loop: Any) -> Any:
        nonlocal found
        if STREAM in loop.annotations:
            found = True
            operand = _operand(loop)
            hints = (
                _lines(operand, loop, int(loop.annotations[STREAM])) if operand is not None else []
            )
            return _with_hints(loop, hints, STREAM)
        if PANEL in loop.annotations:
            found = True
            return _share(loop)
        return loop

    body = tvm_ffi.structural_map(func.body, (tirx.For, look))
    return func.with_body(body) if found else func


def _with_hints(loop: Any, hints: list[Any], mark: str = "") -> Any:
    """The loop with statements before its body, and without a mark."""
    from tvm import tirx

    kept = {key: value for key, value in loop.annotations.items() if key != mark}
    body = tirx.SeqStmt([*hints, loop.body]) if hints else loop.body
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=kept)


def _inner(loop: Any) -> list[Any]:
    """The loops inside a loop; of nested ones the inner first."""
    import tvm_ffi
    from tvm import tirx

    found: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, found.append))
    return found


def _operand(loop: Any) -> Any:
    """The load of which one iteration of a loop reads one contiguous piece; None if there is none.

    A vector load from what the loop does not write, in which the loop variable is one index.
    """
    import tvm_ffi
    from tvm import ir, tirx

    stored: list[Any] = []
    loads: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.BufferStore):
            stored.append(node.buffer)
        else:
            loads.append(node)

    tvm_ffi.structural_walk(loop.body, ((tirx.BufferStore, ir.expr.TensorLoad), look))
    vectors = [n.loop_var for n in _inner(loop) if int(n.kind) == tirx.ForKind.VECTORIZED]
    for load in loads:
        written = any(load.source.same_as(buffer) for buffer in stored)
        if written or not any(_uses(load.indices[-1], var) for var in vectors):
            continue
        if sum(index.same_as(loop.loop_var) for index in load.indices) == 1:
            return load
    return None


def _piece(load: Any, loop: Any) -> tuple[int, int]:
    """The dimension that the loop variable indexes, and the values behind one of its indices."""
    dimension = next(d for d, i in enumerate(load.indices) if i.same_as(loop.loop_var))
    return dimension, prod(int(extent) for extent in load.source.shape[dimension + 1 :])


def _start(load: Any, loops: list[Any]) -> Any:
    """The load in the first iteration of some loops."""
    import tvm_ffi
    from tvm import ir, tirx

    def first(var: Any) -> Any:
        inside = any(var.same_as(loop.loop_var) for loop in loops)
        return tirx.IntImm(var.ty.dtype, 0) if inside else var

    return tvm_ffi.structural_map(load, (ir.Var, first))


def _ahead(start: Any, offset: Any, locality: int) -> Any:
    """The prefetch of what lies so many values behind a load."""
    from tvm import tirx

    indices = [*start.indices[:-1], start.indices[-1] + offset]
    address = tirx.address_of(tirx.BufferLoad(start.source, indices))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, 0, locality, 1))


def _lines(load: Any, loop: Any, distance: int) -> list[Any]:
    """The prefetches of one iteration's piece, so many bytes ahead."""
    _, values = _piece(load, loop)
    start = _start(load, _inner(loop))
    lines = range(0, 4 * values, _LINE)
    return [_ahead(start, (distance + line) // 4, _TO_L1) for line in lines]


def _share(loop: Any) -> Any:
    """A loop over tiles, each asking for its share of the next panel."""
    import tvm_ffi
    from tvm import tirx

    reduction = [n for n in reversed(_inner(loop)) if int(n.kind) == tirx.ForKind.SERIAL]
    load = _operand(reduction[-1]) if reduction else None
    if load is None:
        return _with_hints(loop, [], PANEL)
    last, (dimension, values) = reduction[-1], _piece(load, reduction[-1])
    position, steps = 0, 1
    for nest, extent in zip(
        reduction, list(load.source.shape)[dimension + 1 - len(reduction) :], strict=False
    ):
        if int(nest.extent) != int(extent):
            return _with_hints(loop, [], PANEL)
        position, steps = position * int(extent) + nest.loop_var, steps * int(extent)
    share = -(-values // int(loop.extent))
    start = _start(load, _inner(loop))
    hint = _ahead(start, steps * values + (loop.loop_var * steps + position) * share, _TO_L2)

    def look(nest: Any) -> Any:
        return _with_hints(nest, [hint]) if nest.loop_var.same_as(last.loop_var) else nest

    body = tvm_ffi.structural_map(loop.body, (tirx.For, look))
    kept = {key: value for key, value in loop.annotations.items() if key != PANEL}
    return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=kept)


def _uses(index: Any, var: Any) -> bool:
    import tvm_ffi
    from tvm import ir

    found: list[Any] = []
    tvm_ffi.structural_walk(index, (ir.Var, found.append))
    return any(v.same_as(var) for v in found)
