"""Removes barriers that double buffering makes redundant.

TVM's ThreadSync does not see that an iteration reads one buffer and writes the other, and puts a
barrier between them. If both sides touch different memory in every iteration, such a barrier only
makes warps wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass, nodes_of, rebuilt, variables

_BARRIER = "tirx.tvm_storage_sync"
_SHARED = "shared"
# double buffers alternate: an iteration touches the same memory as the next but one
_TURNS = 2
# beyond so many values of thread and loop variables, an access is not analyzed
_MOST_PLACES = 1 << 20
_Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _SharedAccess:
    """One load or store of shared memory.

    ``buffer`` and ``index`` are the accessed element, and ``writes`` is whether it is stored.
    ``ahead`` counts iterations after the iteration of the barrier. ``ranges`` are of the variables
    of inner loops. ``tests`` are conditions under which the access happens. Where threads share a
    copy unevenly, they select the threads that take part.
    """

    buffer: Any
    index: Any
    writes: bool
    ahead: int
    ranges: Mapping[Any, tuple[int, int]]
    tests: tuple[Any, ...]


def Barriers() -> Any:
    """A pass that removes redundant barriers.

    Pattern: a barrier in a loop of a kernel. No shared memory is touched on both sides of it and
    written on one of them, in one iteration or in neighboring iterations.

    Rewrite: the loop without that barrier.

    Why here: after ThreadSync, which inserts barriers. Before common subexpressions leave the
    indices, because the analysis needs whole indices.
    """
    return function_pass("cuda.Barriers", _rewrite)


def _rewrite(func: Any) -> Any:
    body = _visited(func.body, {}, [])
    return func if body is None else func.with_body(body)


def _visited(statement: Any, ranges: dict[Any, Any], later: Sequence[Any]) -> Any:
    """A statement of a kernel's outermost level without redundant barriers; None if unchanged.

    ``ranges`` has the ranges of thread indices. ``later`` are statements that the kernel executes
    afterwards. Nested loops are left as they are.
    """
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
    """A serial loop without its redundant barriers; None if unchanged."""
    parts = list(loop.body.seq)
    barriers = [place for place, part in enumerate(parts) if _is_barrier(part)]
    end = next((place for place, part in enumerate(later) if _is_barrier(part)), len(later))
    # a write after the loop might conflict with reads of the last iteration
    if len(barriers) < _TURNS or any(a.writes for a in _all(later[:end], 0)):
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


def _all(statements: Sequence[Any], ahead: int) -> list[_SharedAccess]:
    return [a for part in statements if part is not None for a in _accesses(part, ahead)]


def _accesses(
    statement: Any,
    ahead: int,
    ranges: Mapping[Any, tuple[int, int]] | None = None,
    tests: tuple[Any, ...] = (),
) -> Iterator[_SharedAccess]:
    """Every load and store of shared memory in a statement."""
    ranges = ranges or {}
    if isinstance(statement, tirx.SeqStmt):
        for part in statement.seq:
            yield from _accesses(part, ahead, ranges, tests)
        return
    if isinstance(statement, tirx.For) and all(
        isinstance(bound, tirx.IntImm) for bound in (statement.min, statement.extent)
    ):
        first = int(statement.min)
        inner = {**ranges, statement.loop_var: (first, first + int(statement.extent) - 1)}
        yield from _accesses(statement.body, ahead, inner, tests)
        return
    if isinstance(statement, tirx.IfThenElse) and not statement.else_case:
        yield from _accesses(tirx.Evaluate(statement.condition), ahead, ranges, tests)
        inside = (*tests, statement.condition)
        yield from _accesses(statement.then_case, ahead, ranges, inside)
        return
    loads, stores = nodes_of(statement, ir.TensorLoad), nodes_of(statement, tirx.BufferStore)
    touched = [(load.source, load.indices[0], False) for load in loads]
    touched += [(store.buffer, store.indices[0], True) for store in stores]
    for buffer, index, writes in touched:
        if str(buffer.scope()).startswith(_SHARED):
            yield _SharedAccess(buffer, index, writes, ahead, ranges, tests)


def _meet(
    left: Sequence[_SharedAccess], right: Sequence[_SharedAccess], loop: Any, ranges: dict[Any, Any]
) -> bool:
    """Whether both sides may touch the same memory and one of them writes it."""
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


def _reach(
    access: _SharedAccess, turn: int, loop: Any, ranges: dict[Any, Any]
) -> tuple[int, int] | None:
    """First and last index in every second iteration; None if unknown."""
    index, lanes = access.index, 1
    if isinstance(index, tirx.Ramp):
        index, lanes = index.base, int(index.lanes)
        if int(access.index.stride) != 1:
            return None
    used = [var for part in (index, *access.tests) for var in variables(part)]
    known = {**ranges, **access.ranges}
    met = {var: known[var] for var in known if any(var.same_as(other) for other in used)}
    # with two iterations TVM simplifies `v % 2` to `v`
    two = isinstance(loop.extent, tirx.IntImm) and int(loop.extent) == _TURNS
    if two and turn + access.ahead >= _TURNS:
        return 0, -1
    places = _Places(loop.loop_var, turn + access.ahead, met, two and int(loop.min) == 0)
    if places.count > _MOST_PLACES:
        return None
    found = places.of(index)
    if found is None:
        return None
    taken = np.ones_like(found, bool)
    for test in access.tests:
        holds = places.of(test)
        # a condition that cannot be evaluated excludes nothing
        if holds is not None:
            found, taken = np.broadcast_arrays(found, taken & holds.astype(bool))
    if not taken.any():
        return 0, -1
    return int(found[taken].min()), int(found[taken].max()) + lanes - 1


@dataclass(frozen=True)
class _Places:
    """All combinations of iterations and threads, in every second iteration of a loop.

    ``turn`` is the value of the loop's variable ``var`` modulo 2: only its parity is known. All
    other variables with their ``ranges`` are axes of the arrays. ``is_turn`` is whether the
    variable equals ``turn``.
    """

    var: Any
    turn: int
    ranges: Mapping[Any, tuple[int, int]]
    is_turn: bool = False

    @property
    def count(self) -> int:
        """The number of combinations."""
        return prod(last - first + 1 for first, last in self.ranges.values())

    def of(self, e: Any) -> _Values | None:
        """Every value of an expression of integer arithmetic and comparisons."""
        if isinstance(e, tirx.IntImm):
            return np.array(int(e))
        if isinstance(e, ir.Var):
            own = self.is_turn and e.same_as(self.var)
            return np.array(self.turn) if own else self._axis(e)
        if isinstance(e, tirx.FloorMod) and isinstance(e.b, tirx.IntImm) and int(e.b) == _TURNS:
            known = self._parity(e.a)
            if known is not None:
                return np.array(known)
        functions = {
            tirx.Add: np.add,
            tirx.Sub: np.subtract,
            tirx.Mul: np.multiply,
            tirx.FloorDiv: np.floor_divide,
            tirx.FloorMod: np.mod,
            tirx.LT: np.less,
            tirx.And: np.logical_and,
        }
        function = functions.get(type(e))
        if function is None:
            return None
        a, b = self.of(e.a), self.of(e.b)
        if (
            a is None
            or b is None
            or (isinstance(e, tirx.FloorDiv | tirx.FloorMod) and (b < 1).any())
        ):
            return None
        return np.asarray(function(a, b))

    def _axis(self, var: Any) -> _Values | None:
        for place, (known, (first, last)) in enumerate(self.ranges.items()):
            if known.same_as(var):
                shape = [1] * len(self.ranges)
                shape[place] = last - first + 1
                return np.arange(first, last + 1).reshape(shape)
        return None

    def _parity(self, expression: Any) -> int | None:
        """``var + c`` modulo 2; None for another expression."""
        if expression.same_as(self.var):
            return self.turn % _TURNS
        if isinstance(expression, tirx.Add) and isinstance(expression.b, tirx.IntImm):
            inner = self._parity(expression.a)
            return None if inner is None else (inner + int(expression.b)) % _TURNS
        return None
