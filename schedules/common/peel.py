"""Loop peeling: split the first and last iterations off annotated loops.

A padded convolution reads its input under a predicate such as ``0 <= h + r - pad``. The predicate
holds for every tap in the interior of the image, so a schedule marks the tile loops with
:func:`mark_peel` and :func:`peel_loops` gives the first and last tiles loops of their own: there
the tile index is a constant and the predicates fold away after unrolling, in the interior they are
provably true. The same holds for the predicate of a last, narrower tile.

TVM's own ``Schedule.loop_partition`` takes loops over one block only, and its ``LoopPartition``
pass runs after the simplifier has removed the ``likely`` marks that it looks for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

_KEY = "tvmconv.peel"


def mark_peel(schedule: Any, loop: Any, head: int, tail: int) -> None:
    """Ask for each of the ``head`` first and ``tail`` last iterations as code of its own.

    Loops of one iteration need no mark: their index is a constant already.
    """
    if (head or tail) and int(schedule.get(loop).extent) > 1:
        schedule.annotate(loop, _KEY, [head, tail])


def peel_loops(func: Any) -> Any:
    """Split the marked loops of a scheduled function.

    Parameters
    ----------
    func
        ``tirx.PrimFunc`` in block form, as a schedule leaves it.

    Returns
    -------
    tirx.PrimFunc
        The same function where no loop is marked. Otherwise every marked loop is a sequence of
        its first iterations, one loop and its last iterations, and every copy of the body owns
        its variables and its intermediate buffers.
    """
    import tvm_ffi
    from tvm import ir, s_tir, tirx

    marked = False

    def look(loop: Any) -> None:
        nonlocal marked
        marked = marked or _KEY in loop.annotations

    tvm_ffi.structural_walk(func.body, (tirx.For, look))
    if not marked:
        return func

    # buffers must be allocated inside the loops for each copy to get one of its own
    module = s_tir.transform.PlanAndUpdateBufferAllocationLocation()(ir.IRModule({"main": func}))
    func = module["main"]
    body = tvm_ffi.structural_map(func.body, (tirx.For, _split))
    return func.with_body(body)


def _split(loop: Any) -> Any:
    """The loop itself, or its parts in order where it is marked."""
    from tvm import ir, tirx

    if _KEY not in loop.annotations:
        return loop
    head, tail = (int(count) for count in loop.annotations[_KEY])
    extent = int(loop.extent)
    first = min(head, extent)
    last = max(extent - tail, first)
    cuts = [*range(first), *sorted({first, last}), *range(last + 1, extent + 1)]
    annotations = {key: value for key, value in loop.annotations.items() if key != _KEY}
    parts = []
    for begin, end in pairwise(cuts):
        if end - begin == 1:
            index = tirx.IntImm(loop.loop_var.ty.dtype, begin)
            parts.append(_copy(loop.body, loop.loop_var, index))
            continue
        var = ir.Var(loop.loop_var.name, loop.loop_var.ty)
        inner = _copy(loop.body, loop.loop_var, var + begin)
        parts.append(tirx.For(var, 0, end - begin, loop.kind, inner, annotations=annotations))
    return tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]


def _copy(body: Any, loop_var: Any, index: Any) -> Any:
    """A loop body with ``index`` for the loop's variable and fresh variables and buffers."""
    import tvm_ffi
    from tvm import ir, s_tir, tirx

    names: dict[Any, Any] = {}

    def define(node: Any) -> None:
        if isinstance(node, tirx.For):
            defined = [node.loop_var]
        else:
            defined = [*node.alloc_buffers, *(axis.var for axis in node.iter_vars)]
        for var in defined:
            names[var] = ir.Var(var.name, var.ty)

    tvm_ffi.structural_walk(body, ((tirx.For, s_tir.SBlock), define))
    names[loop_var] = index
    return tvm_ffi.structural_map(body, (ir.Var, lambda var: names.get(var, var)))
