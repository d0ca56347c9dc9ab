"""Predicates of scalable vectors: which positions exist and pass their conditions.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import substitute, uses
from tvmconv.tir.sve.vectors import (
    ALL,
    FLAGS,
    SEGMENT,
    NoScalableForm,
    intrinsic,
    length,
    number,
)


@dataclass
class Lanes:
    """The lanes of one vector of positions.

    ``pixel`` is the variable of the position index, and ``first`` the index of the vector's first
    position. Lanes beyond ``count`` positions are neither read nor written; without it, all exist.
    """

    pixel: Any
    first: Any
    count: int | None
    analyzer: Any

    def varies(self, expression: Any) -> bool:
        """Whether an expression depends on the position."""
        return uses(expression, self.pixel)

    def mask(self, tests: Sequence[Any] = ()) -> Any:
        """The lanes of positions that exist and pass all tests."""
        upper, lower, others = list[Any](), list[Any](), list[Any]()
        if self.count is not None:
            upper.append(number(self.count))
        for test in _conjuncts(tests):
            if not self.varies(test):
                others.append(tirx.Broadcast(test, length()))
                continue
            bound = self._bound(test)
            if bound is None:
                others.append(self.each(test, self.numbers()))
            else:
                (upper if bound[0] else lower).append(bound[1])
        found = self._below(upper, tirx.min) if upper else intrinsic(FLAGS, "ptrue", number(ALL))
        if lower:
            found = tirx.And(found, tirx.Not(self._below(lower, tirx.max)))
        for flags in others:
            found = tirx.And(found, flags)
        return found

    def divided(self, test: Any) -> tuple[list[Any], list[Any]]:
        """The parts of a test that do not depend on the position, and the parts that do."""
        parts = _conjuncts([test])
        return (
            [part for part in parts if not self.varies(part)],
            [part for part in parts if self.varies(part)],
        )

    def _below(self, bounds: Sequence[Any], closest: Any) -> Any:
        """Lanes of the positions before a bound."""
        end = bounds[0]
        for bound in bounds[1:]:
            end = closest(end, bound)
        return intrinsic(
            FLAGS, "whilelt", self.first * SEGMENT, self.analyzer.simplify(end) * SEGMENT
        )

    def _bound(self, test: Any) -> tuple[bool, Any] | None:
        """``(True, b)`` for a test ``pixel < b``, ``(False, b)`` for ``pixel >= b``."""
        if isinstance(test, tirx.GT | tirx.GE):
            test = {tirx.GT: tirx.LT, tirx.GE: tirx.LE}[type(test)](test.b, test.a)
        if not isinstance(test, tirx.LT | tirx.LE):
            return None
        # the test is ``rest > 0``; in a row index, test the row's first or last position
        rest = test.b - test.a + int(isinstance(test, tirx.LE))
        rows = _quotients(rest, self.pixel)
        if len(rows) > 1:
            return None
        variable, width, offset = self.pixel, 1, 0
        if rows:
            variable, width = ir.Var("row", self.pixel.ty), rows[0].b
            offset = self.analyzer.simplify(rows[0].a - self.pixel)
            rest = _with(rest, rows[0], variable)
            if self.varies(rest) or self.varies(offset):
                return None
        slope = self.analyzer.simplify(substitute(rest, {variable: variable + 1}) - rest)
        if not isinstance(slope, tirx.IntImm) or not int(slope):
            return None
        start, step = substitute(rest, {variable: number(0)}), abs(int(slope))
        below = int(slope) < 0
        # ``start - step * variable > 0``, or ``start + step * variable > 0``
        bound = tirx.floordiv(start + step - 1, step) if below else tirx.floordiv(-start, step) + 1
        return below, self.analyzer.simplify(bound) * width - offset

    def numbers(self) -> Any:
        """The position index of each lane."""
        lanes = tirx.Ramp(number(0), number(1), length())
        segments = tirx.RShift(lanes, tirx.Broadcast(number(2), length()))
        return tirx.Broadcast(self.first, length()) + segments

    def each(self, expression: Any, numbers: Any) -> Any:
        """An integer expression or a test, evaluated for a vector of position indices."""
        dtype = str(numbers.ty.dtype).split("x")[0]

        def of(node: Any) -> Any:
            if not self.varies(node):
                known = str(node.ty.dtype) in ("bool", dtype)
                return tirx.Broadcast(node if known else tirx.Cast(dtype, node), lanes)
            if node.same_as(self.pixel):
                return numbers
            if isinstance(node, tirx.FloorMod):  # operands are not negative
                return tirx.Mod(of(node.a), of(node.b))
            if isinstance(node, tirx.FloorDiv):
                return tirx.Div(of(node.a), of(node.b))
            if hasattr(node, "a") and hasattr(node, "b"):
                return type(node)(of(node.a), of(node.b))
            raise NoScalableForm(f"{type(node).__name__} in {expression}")

        lanes = tirx.vscale() * (SEGMENT if dtype == "int32" else SEGMENT // 2)
        return of(expression)


def _quotients(expression: Any, var: Any) -> list[Any]:
    """The distinct quotients in an expression that use a variable."""
    found: list[Any] = []

    def look(node: Any) -> None:
        known = any(tvm_ffi.structural_equal(node, other) for other in found)
        if uses(node, var) and not known:
            found.append(node)

    tvm_ffi.structural_walk(expression, (tirx.FloorDiv, look))
    return found


def _with(expression: Any, old: Any, new: Any) -> Any:
    """An expression with one part replaced."""

    def put(node: Any) -> Any:
        return new if tvm_ffi.structural_equal(node, old) else node

    return tvm_ffi.structural_map(expression, (type(old), put))


def _conjuncts(tests: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for test in tests:
        if isinstance(test, tirx.And):
            found += _conjuncts([test.a, test.b])
        else:
            found.append(test)
    return found
