"""The conditions of a statement, their variables and their outcomes, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from tvm import ir, tirx

from tvmconv.operators.products import SIDE_BY_SIDE
from tvmconv.tir.general.rewrite import nodes_of, variables

T = TypeVar("T")


class Memo:
    """A cache of the conditions of statements, the variables of conditions, and outcomes.

    Keys are the handles of TVM's objects, which are kept alive: a later object could otherwise
    get the handle of a dead one.
    """

    def __init__(self) -> None:
        self.outcomes: dict[tuple[Any, ...], int] = {}
        self._kept: list[Any] = []
        self._found: dict[tuple[Callable[[Any], Any], int], Any] = {}

    def keep(self, *objects: Any) -> None:
        """Keep objects alive whose handles are part of a key."""
        self._kept += objects

    def conditions(self, stmt: Any) -> Collection[Any]:
        """The conditions of all branches and selections in a statement, in order."""
        return self._once(_conditions, stmt)

    def selects(self, stmt: Any) -> Collection[Any]:
        """The conditions of all selections in a statement, in order."""
        return self._once(_selects, stmt)

    def conjuncts(self, condition: Any) -> Collection[Any]:
        """The parts of a conjunction."""
        return self._once(conjuncts, condition)

    def variables(self, expression: Any) -> dict[int, Any]:
        """The variables of an expression by their handles, each once."""
        return self._once(_by_handle, expression)

    def _once(self, find: Callable[[Any], T], node: Any) -> T:
        key = find, hash(node)
        found: T | None = self._found.get(key)
        if found is None:
            found = self._found[key] = find(node)
            self._kept.append(node)
        return found


def is_select(call: Any) -> bool:
    """Whether a call is ``if_then_else``."""
    return isinstance(call.op, ir.Op) and call.op.name.endswith("if_then_else")


def conditional_loads(value: Any) -> list[Any]:
    """The loads that an expression executes only under a condition."""
    selects = (call for call in nodes_of(value, ir.Call) if is_select(call))
    branches = (branch for call in selects for branch in call.args[1:])
    return [load for branch in branches for load in nodes_of(branch, ir.TensorLoad)]


def is_zero(expression: Any) -> bool:
    """Whether an expression is a literal zero."""
    return isinstance(expression, tirx.FloatImm | tirx.IntImm) and float(expression.value) == 0.0


def select_zero(stmt: Any) -> bool:
    """Whether every selection of a statement is a whole factor that is a value or zero.

    A value that shares a dword with other values is not a whole factor.
    """
    for call in nodes_of(stmt, ir.Call):
        if is_select(call):
            if not is_zero(call.args[2]):
                return False
        elif getattr(call.op, "name", "").startswith(SIDE_BY_SIDE) and len(call.args) > 1:
            return False
    return True


def _conditions(stmt: Any) -> list[Any]:
    nodes = nodes_of(stmt, (tirx.IfThenElse, ir.Call))
    branches = (node for node in nodes if isinstance(node, tirx.IfThenElse) or is_select(node))
    return [n.condition if isinstance(n, tirx.IfThenElse) else n.args[0] for n in branches]


def _selects(stmt: Any) -> list[Any]:
    return [call.args[0] for call in nodes_of(stmt, ir.Call) if is_select(call)]


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a conjunction, or the condition itself."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def _by_handle(expression: Any) -> dict[int, Any]:
    return {hash(var): var for var in variables(expression)}
