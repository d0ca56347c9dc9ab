"""What is known about the variables of a statement while a function is rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any


@dataclass(frozen=True, eq=False)
class Scope:
    """Replacements of variables, ranges of the new ones, and conditions known to hold.

    Parameters
    ----------
    values
        Old variable -> new variable or constant.
    ranges
        (new variable, begin, end) of the loops around the statement.
    assumed
        Conditions, over new variables, of the branches around it.
    pieces
        Old buffer -> the buffers that replace it, and the dimension that tells them apart.
    written_out
        Old variables of unrolled loops that must become constants.
    loops
        (old variable, extent) of the loops around the statement, outermost first.
    first_column
        Whether the statement belongs to the first kernel column, if to any.
    """

    values: dict[Any, Any] = field(default_factory=dict)
    ranges: tuple[tuple[Any, int, int], ...] = ()
    assumed: tuple[Any, ...] = ()
    pieces: dict[Any, tuple[list[Any], int]] = field(default_factory=dict)
    written_out: tuple[Any, ...] = ()
    loops: tuple[tuple[Any, int], ...] = ()
    first_column: bool = True

    def inside(self, var: Any, new: Any, begin: int, end: int) -> Scope:
        """The scope of a loop's body, the loop over ``new`` in place of ``var``."""
        ranges = (*self.ranges, (new, begin, end))
        return replace(self, values={**self.values, var: new}, ranges=ranges)

    def fixing(self, var: Any, value: int) -> Scope:
        """The scope with a variable replaced by a constant."""
        from tvm import tirx

        scope = replace(self, values={**self.values, var: tirx.IntImm(var.ty.dtype, value)})
        # ranges are the same, and with them the analyzer, which is slow to set up
        scope.__dict__["analyzer"] = self.analyzer
        return scope

    def around(self, loop: Any) -> Scope:
        """The scope with one more loop on record."""
        return replace(self, loops=(*self.loops, (loop.loop_var, int(loop.extent))))

    def is_loop(self, var: Any) -> bool:
        """Whether an old variable still varies."""
        from tvm import ir

        return isinstance(self.values.get(var), ir.Var)

    def holding(self, buffer: Any, pieces: list[Any], dimension: int, loops: list[Any]) -> Scope:
        """The scope behind an allocation."""
        pieces_ = {**self.pieces, buffer: (pieces, dimension)}
        return replace(self, pieces=pieces_, written_out=(*self.written_out, *loops))

    def given(self, *conditions: Any) -> Scope:
        """The scope of a branch."""
        return replace(self, assumed=(*self.assumed, *conditions))

    @cached_property
    def analyzer(self) -> Any:
        """TVM's arithmetic analyzer with the ranges bound."""
        from tvm import ir, sym

        analyzer = sym.Analyzer()
        for var, begin, end in self.ranges:
            analyzer.bind(var, ir.Range(begin, end))
        return analyzer

    def defines(self, condition: Any) -> bool:
        """Whether all variables of a condition belong to loops around this statement."""
        return all(any(v.same_as(var) for var, _, _ in self.ranges) for v in variables(condition))

    def rewrite(self, expression: Any) -> Any:
        """An expression over the new variables."""
        import tvm_ffi
        from tvm import ir

        return tvm_ffi.structural_map(
            expression, (ir.Var, lambda var: self.values.get(var, var)), order="post"
        )

    def undecided(self, condition: Any) -> list[Any] | None:
        """The conjuncts that do not follow from the scope; None if one is false."""
        from tvm import tirx

        parts = []
        for part in _conjuncts(self.rewrite(condition)):
            if any(_same(part, known) for known in self.assumed):
                continue
            simple = self.analyzer.simplify(part)
            if isinstance(simple, tirx.IntImm):
                if not int(simple):
                    return None
                continue
            parts.append(part)
        return parts


def open_conditions(
    stmt: Any, scope: Scope, constants: tuple[Any, ...] = ()
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Conjuncts in a statement that its loops' ranges do not decide.

    Each comes with those of its inner variables that unrolling turns into constants.
    """
    import tvm_ffi
    from tvm import ir, tirx

    if isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq:
            yield from open_conditions(part, scope, constants)
    elif isinstance(stmt, tirx.For):
        inner = fresh(stmt.loop_var)
        if is_unrolled(stmt) or "tvmconv.taps" in stmt.annotations:
            constants = (*constants, inner)
        within = scope.inside(stmt.loop_var, inner, 0, int(stmt.extent))
        yield from open_conditions(stmt.body, within, constants)
    elif isinstance(stmt, tirx.IfThenElse):
        for part in scope.undecided(stmt.condition) or ():
            yield part, constants
        for case in (stmt.then_case, stmt.else_case):
            if case is not None:
                yield from open_conditions(case, scope, constants)
    else:
        conditions: list[Any] = []

        def look(call: Any) -> None:
            if is_select(call):
                conditions.append(call.args[0])

        tvm_ffi.structural_walk(stmt, (ir.Call, look))
        for condition in conditions:
            for part in scope.undecided(condition) or ():
                yield part, constants


def outcomes(stmt: Any, scope: Scope) -> tuple[int, ...]:
    """What is known of each condition in a statement: 1 true, 0 false, -1 undecided."""
    import tvm_ffi
    from tvm import ir, tirx

    found: list[int] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.IfThenElse) or is_select(node):
            condition = node.condition if isinstance(node, tirx.IfThenElse) else node.args[0]
            undecided = scope.undecided(condition)
            found.append(0 if undecided is None else -1 if undecided else 1)

    tvm_ffi.structural_walk(stmt, ((tirx.IfThenElse, ir.Call), look))
    return tuple(found)


def is_unrolled(loop: Any) -> bool:
    """Whether a loop is to be written out."""
    from tvm import tirx

    return int(loop.kind) == int(tirx.ForKind.UNROLLED)


def variables(expression: Any) -> list[Any]:
    """The variables of an expression, with repetitions."""
    import tvm_ffi
    from tvm import ir

    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (ir.Var, found.append))
    return found


def fresh(var: Any) -> Any:
    """A new variable (or buffer) of the same name and type."""
    from tvm import ir

    return ir.Var(var.name, var.ty)


def is_select(call: Any) -> bool:
    """Whether a call is ``if_then_else``."""
    from tvm import ir

    return isinstance(call.op, ir.Op) and call.op.name.endswith("if_then_else")


def _conjuncts(condition: Any) -> list[Any]:
    from tvm import tirx

    if isinstance(condition, tirx.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _same(left: Any, right: Any) -> bool:
    import tvm_ffi

    return bool(tvm_ffi.structural_equal(left, right))
