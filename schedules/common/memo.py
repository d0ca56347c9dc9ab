"""What was found out about conditions, for the many times that the same ones are asked about."""

from __future__ import annotations

from typing import Any

from tvmconv.compile.rewrite import variables


class Memo:
    """Conditions of statements, variables of conditions, and outcomes.

    Objects go by their handles, and are kept: the handle of one that is gone could be another's.
    """

    def __init__(self) -> None:
        self.outcomes: dict[tuple[Any, ...], int] = {}
        self._kept: list[Any] = []
        self._conditions: dict[int, tuple[Any, ...]] = {}
        self._selects: dict[int, tuple[Any, ...]] = {}
        self._conjuncts: dict[int, tuple[Any, ...]] = {}
        self._variables: dict[int, tuple[Any, ...]] = {}
        self._handles: dict[int, tuple[int, ...]] = {}

    def keep(self, *objects: Any) -> None:
        """Hold objects whose handles are part of a key."""
        self._kept += objects

    def conditions(self, stmt: Any) -> tuple[Any, ...]:
        """The conditions of all branches and selections in a statement, in order."""
        from tvm import ir, tirx

        found = self._conditions.get(hash(stmt))
        if found is None:
            found = self._conditions[hash(stmt)] = _walk(stmt, (tirx.IfThenElse, ir.Call))
            self._kept.append(stmt)
        return found

    def selects(self, stmt: Any) -> tuple[Any, ...]:
        """The conditions of all selections in a statement, in order."""
        from tvm import ir

        found = self._selects.get(hash(stmt))
        if found is None:
            found = self._selects[hash(stmt)] = _walk(stmt, (ir.Call,))
            self._kept.append(stmt)
        return found

    def conjuncts(self, condition: Any) -> tuple[Any, ...]:
        """The parts of a conjunction."""
        found = self._conjuncts.get(hash(condition))
        if found is None:
            found = self._conjuncts[hash(condition)] = tuple(_conjuncts(condition))
            self._kept.append(condition)
        return found

    def variables(self, expression: Any) -> tuple[Any, ...]:
        """The variables of an expression, each once."""
        found = self._variables.get(hash(expression))
        if found is None:
            distinct = {hash(var): var for var in variables(expression)}
            found = self._variables[hash(expression)] = tuple(distinct.values())
            self._handles[hash(expression)] = tuple(distinct)
            self._kept.append(expression)
        return found

    def handles(self, expression: Any) -> tuple[int, ...]:
        """The handles of :meth:`variables`."""
        found = self._handles.get(hash(expression))
        if found is None:
            self.variables(expression)
            found = self._handles[hash(expression)]
        return found


def is_select(call: Any) -> bool:
    """Whether a call is ``if_then_else``."""
    from tvm import ir

    return isinstance(call.op, ir.Op) and call.op.name.endswith("if_then_else")


def _conjuncts(condition: Any) -> list[Any]:
    from tvm import tirx

    if isinstance(condition, tirx.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _walk(stmt: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    import tvm_ffi
    from tvm import tirx

    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.IfThenElse):
            found.append(node.condition)
        elif is_select(node):
            found.append(node.args[0])

    tvm_ffi.structural_walk(stmt, (kinds, look))
    return tuple(found)
