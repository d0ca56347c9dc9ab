"""Software prefetch of a stream that a reduction loop reads once, in order.

A matrix product with few rows uses each weight once or twice: its time is that of the weights'
arrival. The hardware's prefetchers stop at every page; one prefetch per cache line, some kilobytes
ahead, carries the stream across.
"""

from __future__ import annotations

from math import prod
from typing import Any

# annotation that schedules put on the innermost reduction loop; its value is the distance in bytes
STREAM = "tvmconv.stream"
_LINE = 64
_TO_L1 = 3


def prefetch_streams(func: Any) -> Any:
    """Prefetch, in every marked loop, the vector operand of its multiply-adds.

    The loop variable must index one dimension of that operand alone, the dimensions behind it are
    read whole: one iteration then reads one contiguous piece. Addresses behind the end of the
    operand are asked for as well; a prefetch never faults.

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
        if STREAM not in loop.annotations:
            return loop
        found = True
        kept = {key: value for key, value in loop.annotations.items() if key != STREAM}
        hints = _hints(loop, int(loop.annotations[STREAM]))
        return tirx.For(
            loop.loop_var,
            loop.min,
            loop.extent,
            loop.kind,
            tirx.SeqStmt([*hints, loop.body]) if hints else loop.body,
            annotations=kept,
        )

    body = tvm_ffi.structural_map(func.body, (tirx.For, look))
    return func.with_body(body) if found else func


def _hints(loop: Any, distance: int) -> list[Any]:
    """The prefetches of one iteration."""
    import tvm_ffi
    from tvm import ir, tirx

    inner: list[Any] = []
    stored: list[Any] = []
    loads: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.For):
            inner.append(node)
        elif isinstance(node, tirx.BufferStore):
            stored.append(node.buffer)
        else:
            loads.append(node)

    kinds = (tirx.For, tirx.BufferStore, ir.expr.TensorLoad)
    tvm_ffi.structural_walk(loop.body, (kinds, look))
    lanes = next((n.loop_var for n in inner if int(n.kind) == tirx.ForKind.VECTORIZED), None)
    for load in loads:
        operand = not any(load.source.same_as(buffer) for buffer in stored)
        if lanes is None or not operand or not _uses(load.indices[-1], lanes):
            continue
        step = [d for d, index in enumerate(load.indices) if index.same_as(loop.loop_var)]
        if len(step) == 1:
            return _lines(load, step[0], [n.loop_var for n in inner], distance)
    return []


def _lines(load: Any, dimension: int, inner: list[Any], distance: int) -> list[Any]:
    import tvm_ffi
    from tvm import ir, tirx

    item = 4
    piece = item * prod(int(extent) for extent in load.source.shape[dimension + 1 :])

    def first(var: Any) -> Any:
        return tirx.IntImm(var.ty.dtype, 0) if any(var.same_as(v) for v in inner) else var

    start = tvm_ffi.structural_map(load, (ir.Var, first))
    result = []
    for line in range(-(-piece // _LINE)):
        offset = (distance + line * _LINE) // item
        ahead = [*start.indices[:-1], start.indices[-1] + offset]
        address = tirx.address_of(tirx.BufferLoad(load.source, ahead))
        call = tirx.call_intrin("void", "tirx.prefetch", address, 0, _TO_L1, 1)
        result.append(tirx.Evaluate(call))
    return result


def _uses(index: Any, var: Any) -> bool:
    import tvm_ffi
    from tvm import ir

    found: list[Any] = []
    tvm_ffi.structural_walk(index, (ir.Var, found.append))
    return any(v.same_as(var) for v in found)
