"""The scope of a statement while a function is rebuilt: values and ranges of its variables."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.annotations import RANGE, TAPS
from tvmconv.tir.general.conditions import Memo, is_select
from tvmconv.tir.general.rewrite import uses, variables

__all__ = ["Scope", "fresh", "is_select", "is_unrolled", "open_conditions", "outcomes", "variables"]


@dataclass(eq=False)
class Scope:
    """Replacements of variables, ranges of the new ones, and conditions known to hold.

    A scope is immutable. Thousands are made for one function, and most are never queried, so a
    query sets up its data on demand.

    Parameters
    ----------
    values
        Handle of an old variable -> new variable or constant. Handles compare faster than the
        variables themselves.
    known
        Handle of an old variable -> its constant, or the range of the new variable.
    ranges
        (new variable, begin, end) of the loops around the statement.
    assumed
        Conditions, over new variables, of the branches around the statement.
    pieces
        Old buffer -> the buffers that replace it, and the dimension that selects among them.
    written_out
        Old variables of unrolled loops that must become constants.
    loops
        (old variable, extent) of the loops around the statement, outermost first.
    first_column
        Whether the statement belongs to the first kernel column, if to any.
    memo
        A cache that all scopes of a function share.
    """

    values: dict[int, Any] = field(default_factory=dict)
    known: dict[int, int | tuple[int, int]] = field(default_factory=dict)
    ranges: tuple[tuple[Any, int, int], ...] = ()
    assumed: tuple[Any, ...] = ()
    pieces: dict[Any, tuple[list[Any], int]] = field(default_factory=dict)
    written_out: tuple[Any, ...] = ()
    loops: tuple[tuple[Any, int], ...] = ()
    first_column: bool = True
    memo: Memo = field(default_factory=Memo)
    _analyzer: Any = field(default=None, init=False)

    def inside(self, var: Any, new: Any, begin: int, end: int) -> Scope:
        """The scope of a loop's body, the loop over ``new`` in place of ``var``."""
        scope = self._with(var, new, (begin, end))
        scope.ranges = (*self.ranges, (new, begin, end))
        scope._analyzer = None
        return scope

    def within(self, new: Any, begin: int, end: int) -> Scope:
        """The scope of a branch in which an outer loop has a part of its range."""
        found = copy(self)
        found.ranges = tuple(
            (var, begin, end) if var.same_as(new) else (var, *ends) for var, *ends in self.ranges
        )
        held = {handle for handle, value in self.values.items() if value.same_as(new)}
        found.known = {**self.known, **dict.fromkeys(held, (begin, end))}
        found._analyzer = None
        return found

    def fixing(self, var: Any, value: int) -> Scope:
        """The scope with a variable replaced by a constant; the ranges are the same."""
        return self._with(var, tirx.IntImm(var.ty.dtype, value), value)

    def _with(self, var: Any, value: Any, known: int | tuple[int, int]) -> Scope:
        """A copy with one more variable."""
        scope = copy(self)
        scope.values = {**self.values, hash(var): value}
        scope.known = {**self.known, hash(var): known}
        return scope

    def around(self, loop: Any) -> Scope:
        """The scope inside one more loop."""
        return replace(self, loops=(*self.loops, (loop.loop_var, int(loop.extent))))

    def is_loop(self, var: Any) -> bool:
        """Whether an old variable is not a constant."""
        return isinstance(self.values.get(hash(var)), ir.Var)

    def holding(self, buffer: Any, pieces: list[Any], dimension: int, loops: list[Any]) -> Scope:
        """The scope after an allocation."""
        pieces_ = {**self.pieces, buffer: (pieces, dimension)}
        return replace(self, pieces=pieces_, written_out=(*self.written_out, *loops))

    def given(self, *conditions: Any) -> Scope:
        """The scope of a branch."""
        return replace(self, assumed=(*self.assumed, *conditions))

    @property
    def analyzer(self) -> Any:
        """TVM's arithmetic analyzer with the ranges bound."""
        if self._analyzer is None:
            self._analyzer = sym.Analyzer()
            for var, begin, end in self.ranges:
                self._analyzer.bind(var, ir.Range(begin, end))
        return self._analyzer

    def defines(self, condition: Any) -> bool:
        """Whether all variables of a condition belong to loops around this statement."""
        return all(any(v.same_as(var) for var, _, _ in self.ranges) for v in variables(condition))

    def rewrite(self, expression: Any) -> Any:
        """An expression over the new variables."""
        return tvm_ffi.structural_map(expression, (ir.Var, self.value), order="post")

    def undecided(self, condition: Any) -> list[Any] | None:
        """The conjuncts that do not follow from the scope; None if one is false."""
        parts = []
        for part in self.memo.conjuncts(condition):
            known = self._outcome(part)
            if not known:
                return None
            if known < 0:
                parts.append(self.rewrite(part))
        return parts

    def outcome(self, condition: Any) -> int:
        """The outcome of a condition: 1 true, 0 false, -1 undecided."""
        found = 1
        for part in self.memo.conjuncts(condition):
            known = self._outcome(part)
            if not known:
                return 0
            found = min(found, known)
        return found

    def _outcome(self, part: Any) -> int:
        """:meth:`outcome` of one conjunct, cached for all scopes."""
        known = self.known
        key = (hash(part), *[known.get(handle) for handle in self.memo.variables(part)])
        if self.assumed:
            # assumptions concern variables, not their ranges
            news = [self.value(var) for var in self.memo.variables(part).values()]
            self.memo.keep(*news, *self.assumed)
            key = (*key, *map(hash, news), *map(hash, self.assumed))
        found: int | None = self.memo.outcomes.get(key)
        if found is None:
            found = self.memo.outcomes[key] = self._decide(self.rewrite(part))
        return found

    def _decide(self, part: Any) -> int:
        """:meth:`outcome` of one conjunct over new variables."""
        if any(_same(part, known) for known in self.assumed):
            return 1
        simple = self.analyzer.simplify(part)
        return int(bool(int(simple))) if isinstance(simple, tirx.IntImm) else -1

    def value(self, var: Any) -> Any:
        """The new variable or the constant of an old variable; other variables are unchanged."""
        return self.values.get(hash(var), var)


def open_conditions(
    stmt: Any, scope: Scope, constants: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Conjuncts of predicates in a statement that the ranges of its loops do not decide.

    Each comes with the variables of unrolled loops and loops over taps around the predicate. In a
    copy of the statement these variables may become constants. Conditions on the step of a loop
    that has a range are left out, because they become its bounds.
    """
    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from open_conditions(part, scope, constants)
    elif isinstance(stmt, tirx.For):
        var = stmt.loop_var
        if is_unrolled(stmt) or TAPS in stmt.annotations:
            constants = (*constants, var)
        within = scope.inside(var, var, 0, int(stmt.extent))
        for part, names in open_conditions(stmt.body, within, constants):
            if RANGE not in stmt.annotations or not uses(part, var):
                yield part, names
    elif isinstance(stmt, tirx.IfThenElse):
        for part in scope.undecided(stmt.condition) or ():
            yield part, constants
        for case in (stmt.then_case, stmt.else_case):
            if case is not None:
                yield from open_conditions(case, scope, constants)
    else:
        for condition in scope.memo.selects(stmt):
            for part in scope.undecided(condition) or ():
                yield part, constants


def outcomes(stmt: Any, scope: Scope) -> tuple[int, ...]:
    """The outcome of each condition in a statement: 1 true, 0 false, -1 undecided."""
    return tuple(scope.outcome(condition) for condition in scope.memo.conditions(stmt))


def is_unrolled(loop: Any) -> bool:
    """Whether a loop is to be unrolled."""
    return int(loop.kind) == int(tirx.ForKind.UNROLLED)


def fresh(var: Any) -> Any:
    """A new variable (or buffer) of the same name and type."""
    return ir.Var(var.name, var.ty)


def _same(left: Any, right: Any) -> bool:
    return bool(tvm_ffi.structural_equal(left, right))
