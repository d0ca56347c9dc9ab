"""Which taps of a kernel row lie inside the image, for each pixel of a register tile.

A part of :func:`tvmconv.tir.specialise.Specialise`.
"""

from __future__ import annotations

from typing import Any

from tvmconv.tir.scope import Scope, is_unrolled, outcomes


def same_taps(loop: Any, scope: Scope) -> list[tuple[int, int]]:
    """Ranges of a loop over taps in which the same pixels of the tile lie inside the image.

    Ranges, not single taps: taps written out one after the other would read the same pixels,
    and the compiler would keep those in registers from one tap to the next.
    """
    var, extent = loop.loop_var, int(loop.extent)
    known = [_pixel_outcomes(loop.body, scope.fixing(var, i)) for i in range(extent)]
    starts = [i for i in range(extent) if i == 0 or known[i] != known[i - 1]]
    return list(zip(starts, [*starts[1:], extent], strict=True))


def _pixel_outcomes(stmt: Any, scope: Scope) -> tuple[int, ...]:
    """:func:`outcomes` for every iteration of the unrolled loops that conditions depend on."""
    from tvm import tirx

    if isinstance(stmt, tirx.SeqStmt):
        return tuple(known for part in stmt.seq for known in _pixel_outcomes(part, scope))
    if not isinstance(stmt, tirx.For):
        return tuple(outcomes(stmt, scope))
    var, extent = stmt.loop_var, int(stmt.extent)
    memo = scope.memo
    conditions = memo.conditions(stmt.body)
    used = (v for condition in conditions for v in memo.variables(condition).values())
    if is_unrolled(stmt) and any(var.same_as(v) for v in used):
        steps = (_pixel_outcomes(stmt.body, scope.fixing(var, i)) for i in range(extent))
        return tuple(known for step in steps for known in step)
    return _pixel_outcomes(stmt.body, scope.inside(var, var, 0, extent))
