"""One barrier a slice: of two buffers that take turns, TVM's ThreadSync cannot tell which is which.

It puts a barrier between reading one buffer and writing the other. Where what both sides touch is
apart in every iteration, all that such a barrier does is to make warps wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.tir.rewrite import function_pass, rebuilt

_BARRIER = "tirx.tvm_storage_sync"
_SHARED = "shared"
# buffers take turns: what an iteration touches, the next but one touches again
_TURNS = 2


@dataclass(frozen=True)
class _Access:
    """One load or store of shared memory.

    Parameters
    ----------
    buffer, index
        Where.
    writes
        Whether it is a store.
    ahead
        In how many iterations behind that of the barrier.
    ranges
        Of the variables of loops and tests around it, inside of the loop that holds the barrier.
    """

    buffer: Any
    index: Any
    writes: bool
    ahead: int
    ranges: dict[Any, Any]


def Barriers() -> Any:
    """A pass that removes barriers that separate nothing.

    Pattern: a barrier in a loop of a kernel, where no place of shared memory is touched on both
    sides of it, in one iteration or in neighbouring ones, and written on one of them.

    Rewrite: the loop without that barrier.

    Why here: behind ThreadSync, which sets barriers, and before common expressions leave indices,
    from which the places are told.
    """
    return function_pass("Barriers", _rewrite)


def _rewrite(func: Any) -> Any:
    body = _visited(func.body, {}, [])
    return func if body is None else func.with_body(body)


def _visited(statement: Any, ranges: dict[Any, Any], later: Sequence[Any]) -> Any:
    """A statement of a kernel's outermost level without needless barriers; None if it has none.

    Parameters
    ----------
    statement
        What to look through: loops of loops are left as they are.
    ranges
        Thread indices and their ranges.
    later
        Statements that the kernel executes afterwards.
    """
    from tvm import tirx

    if isinstance(statement, tirx.AttrStmt):
        inner = dict(ranges)
        if statement.attr_key == "thread_extent":
            inner[statement.node.var] = (0, int(statement.value) - 1)
        body = _visited(statement.body, inner, later)
        if body is None:
            return None
        return tirx.AttrStmt(statement.node, statement.attr_key, statement.value, body)
    if isinstance(statement, tirx.SeqStmt):
        parts = list(statement.seq)
        found = [
            _visited(part, ranges, [*parts[place + 1 :], *later])
            for place, part in enumerate(parts)
        ]
        if all(part is None for part in found):
            return None
        return tirx.SeqStmt([new or old for new, old in zip(found, parts, strict=True)])
    if isinstance(statement, tirx.For) and isinstance(statement.body, tirx.SeqStmt):
        return _loop(statement, ranges, later)
    return None


def _loop(loop: Any, ranges: dict[Any, Any], later: Sequence[Any]) -> Any:
    """A serial loop without the barriers that separate nothing; None if it has none such."""
    from tvm import tirx

    parts = list(loop.body.seq)
    barriers = [place for place, part in enumerate(parts) if _is_barrier(part)]
    # a write behind the loop might meet what its last iteration reads
    if len(barriers) < _TURNS or any(a.writes for part in later for a in _accesses(part, 0)):
        return None
    removed = False
    for place in barriers[1:]:
        rest = [p for p in barriers if p != place and parts[p] is not None]
        before = max(p for p in rest if p < place)
        after = min((p for p in rest if p > place), default=len(parts))
        left = _all(parts[before + 1 : place], 0)
        right = _all(parts[place + 1 : after], 0)
        if after == len(parts):
            right += _all(parts[: rest[0]], 1)
        if not _meet(left, right, loop, ranges):
            parts[place] = None
            removed = True
    if not removed:
        return None
    return rebuilt(loop, body=tirx.SeqStmt([part for part in parts if part is not None]))


def _is_barrier(statement: Any) -> bool:
    value = getattr(statement, "value", None)
    return getattr(getattr(value, "op", None), "name", "") == _BARRIER


def _all(statements: Sequence[Any], ahead: int) -> list[_Access]:
    return [a for part in statements if part is not None for a in _accesses(part, ahead)]


def _accesses(statement: Any, ahead: int) -> Iterator[_Access]:
    """Every load and store of shared memory in a statement."""
    import tvm_ffi
    from tvm import ir, tirx

    loads: list[Any] = []
    stores: list[Any] = []
    loops: list[Any] = []
    tvm_ffi.structural_walk(statement, (ir.TensorLoad, loads.append))
    tvm_ffi.structural_walk(statement, (tirx.BufferStore, stores.append))
    tvm_ffi.structural_walk(statement, (tirx.For, loops.append))
    inner = {
        loop.loop_var: (int(loop.min), int(loop.min) + int(loop.extent) - 1)
        for loop in loops
        if isinstance(loop.min, tirx.IntImm) and isinstance(loop.extent, tirx.IntImm)
    }
    if isinstance(statement, tirx.IfThenElse) and isinstance(statement.condition, tirx.LT):
        test = statement.condition
        if (
            isinstance(test.a, ir.Var)
            and isinstance(test.b, tirx.IntImm)
            and not statement.else_case
        ):
            inner[test.a] = (0, int(test.b) - 1)
    touched = [(load.source, load.indices[0], False) for load in loads]
    touched += [(store.buffer, store.indices[0], True) for store in stores]
    for buffer, index, writes in touched:
        if str(buffer.scope()).startswith(_SHARED):
            yield _Access(buffer, index, writes, ahead, inner)


def _meet(
    left: Sequence[_Access], right: Sequence[_Access], loop: Any, ranges: dict[Any, Any]
) -> bool:
    """Whether both sides may touch the same memory, one of them to write it."""
    for turn in range(_TURNS):
        for a in left:
            for b in right:
                if not a.buffer.same_as(b.buffer) or not (a.writes or b.writes):
                    continue
                one, other = (_reach(x, turn, loop, ranges) for x in (a, b))
                if one is None or other is None:
                    return True
                if one[0] <= other[1] and other[0] <= one[1]:
                    return True
    return False


def _reach(access: _Access, turn: int, loop: Any, ranges: dict[Any, Any]) -> tuple[int, int] | None:
    """First and last index in every other iteration; None where that is not known."""
    from tvm import tirx

    index, lanes = access.index, 1
    if isinstance(index, tirx.Ramp):
        index, lanes = index.base, int(index.lanes)
        if int(access.index.stride) != 1:
            return None
    found = _interval(index, _Parity(loop.loop_var, turn + access.ahead), ranges | access.ranges)
    return None if found is None else (found[0], found[1] + lanes - 1)


@dataclass(frozen=True)
class _Parity:
    """The loop's variable, of which no more is known than whether it is even."""

    var: Any
    turn: int

    def of(self, expression: Any) -> int | None:
        """``var + c`` modulo 2; None for another expression."""
        from tvm import tirx

        if expression.same_as(self.var):
            return self.turn % _TURNS
        if isinstance(expression, tirx.Add) and isinstance(expression.b, tirx.IntImm):
            inner = self.of(expression.a)
            return None if inner is None else (inner + int(expression.b)) % _TURNS
        return None


def _interval(e: Any, parity: _Parity, ranges: dict[Any, Any]) -> tuple[int, int] | None:
    """Bounds of an index of sums, products, quotients and remainders."""
    from tvm import ir, tirx

    if isinstance(e, tirx.IntImm):
        return int(e), int(e)
    if isinstance(e, ir.Var):
        return ranges.get(e)
    if isinstance(e, tirx.FloorMod) and isinstance(e.b, tirx.IntImm) and int(e.b) == _TURNS:
        known = parity.of(e.a)
        if known is not None:
            return known, known
    if not isinstance(e, tirx.Add | tirx.Sub | tirx.Mul | tirx.FloorDiv | tirx.FloorMod):
        return None
    a, b = _interval(e.a, parity, ranges), _interval(e.b, parity, ranges)
    if a is None or b is None:
        return None
    if isinstance(e, tirx.Add):
        return a[0] + b[0], a[1] + b[1]
    if isinstance(e, tirx.Sub):
        return a[0] - b[1], a[1] - b[0]
    if b[0] != b[1] or b[0] < 1:
        return None
    if isinstance(e, tirx.Mul):
        return a[0] * b[0], a[1] * b[0]
    if isinstance(e, tirx.FloorDiv):
        return a[0] // b[0], a[1] // b[0]
    same = a[0] // b[0] == a[1] // b[0]
    return (a[0] % b[0], a[1] % b[0]) if same else (0, b[0] - 1)
