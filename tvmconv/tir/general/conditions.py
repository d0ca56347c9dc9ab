"""The conditions of a statement, their variables and their outcomes, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import SIDE_BY_SIDE
from tvmconv.tir.general.rewrite import variables

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


def is_zero(expression: Any) -> bool:
    """Whether an expression is a literal zero."""
    return isinstance(expression, tirx.FloatImm | tirx.IntImm) and float(expression.value) == 0.0


def select_zero(stmt: Any) -> bool:
    """Whether every selection of a statement is a whole factor that is a value or zero.

    A value that shares a dword with other values is not a whole factor.
    """
    others: list[Any] = []
    shares_dword = False

    def look(node: Any) -> None:
        nonlocal shares_dword
        if is_select(node):
            others.append(node.args[2])
        elif getattr(node.op, "name", "").startswith(SIDE_BY_SIDE):
            shares_dword = shares_dword or len(node.args) > 1

    tvm_ffi.structural_walk(stmt, (ir.Call, look))
    return not shares_dword and all(map(is_zero, others))


def _conditions(stmt: Any) -> list[Any]:
    return _walk(stmt, (tirx.IfThenElse, ir.Call))


def _selects(stmt: Any) -> list[Any]:
    return _walk(stmt, (ir.Call,))


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a conjunction, or the condition itself."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def _by_handle(expression: Any) -> dict[int, Any]:
    return {hash(var): var for var in variables(expression)}


def _walk(stmt: Any, kinds: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []

    def look(node: Any) -> None:
        if isinstance(node, tirx.IfThenElse):
            found.append(node.condition)
        elif is_select(node):
            found.append(node.args[0])

    tvm_ffi.structural_walk(stmt, (kinds, look))
    return found
