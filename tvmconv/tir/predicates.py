"""Which lanes of a scalable vector of pixels there are, and pass the tests of their pixels.

A part of :func:`tvmconv.tir.segments.Segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.tir.rewrite import substitute, uses
from tvmconv.tir.vectors import FLAGS, SEGMENT, NoScalableForm, intrinsic, is_number, length, number


@dataclass
class Lanes:
    """The lanes of one vector of pixels.

    Parameters
    ----------
    pixel
        The variable that numbers the pixels.
    first
        Number of the vector's first pixel.
    count
        Pixels there are; the lanes of others are neither read nor written.
    analyzer
        TVM's arithmetic analyzer.
    """

    pixel: Any
    first: Any
    count: int
    analyzer: Any

    def varies(self, expression: Any) -> bool:
        """Whether an expression differs from pixel to pixel."""
        return uses(expression, self.pixel)

    def mask(self, tests: Sequence[Any] = ()) -> Any:
        """The lanes of pixels that exist and pass all tests."""
        from tvm import tirx

        upper, lower, others = [number(self.count)], list[Any](), list[Any]()
        for test in _conjuncts(tests):
            if not self.varies(test):
                others.append(tirx.Broadcast(test, length()))
                continue
            bound = self._bound(test)
            if bound is None:
                others.append(self._lanes_where(test))
            else:
                (upper if bound[0] else lower).append(bound[1])
        found = self._below(upper, tirx.min)
        if lower:
            found = tirx.And(found, tirx.Not(self._below(lower, tirx.max)))
        for flags in others:
            found = tirx.And(found, flags)
        return found

    def _below(self, bounds: Sequence[Any], closest: Any) -> Any:
        """Lanes of the pixels in front of a bound."""
        end = bounds[0]
        for bound in bounds[1:]:
            end = closest(end, bound)
        return intrinsic(
            FLAGS, "whilelt", self.first * SEGMENT, self.analyzer.simplify(end) * SEGMENT
        )

    def _bound(self, test: Any) -> tuple[bool, Any] | None:
        """``(True, b)`` for a test ``pixel < b``, ``(False, b)`` for ``pixel >= b``."""
        from tvm import ir, tirx

        if isinstance(test, tirx.GT | tirx.GE):
            test = {tirx.GT: tirx.LT, tirx.GE: tirx.LE}[type(test)](test.b, test.a)
        if not isinstance(test, tirx.LT | tirx.LE):
            return None
        # the test is ``rest > 0``; of a row's number, of the row's first or last pixel
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
        if is_number(slope, -1):
            bound = self.analyzer.simplify(rest + variable)
        elif is_number(slope, 1):
            bound = self.analyzer.simplify(variable - rest + 1)
        else:
            return None
        return is_number(slope, -1), bound * width - offset

    def _lanes_where(self, test: Any) -> Any:
        """A test that is not linear, by a number for each lane."""
        from tvm import tirx

        lanes = tirx.Ramp(number(0), number(1), length())
        segments = tirx.RShift(lanes, tirx.Broadcast(number(2), length()))
        numbers = tirx.Broadcast(self.first, length()) + segments

        def of(node: Any) -> Any:
            if not self.varies(node):
                return tirx.Broadcast(node, length())
            if node.same_as(self.pixel):
                return numbers
            if isinstance(node, tirx.FloorMod):  # of what is not negative
                return tirx.Mod(of(node.a), of(node.b))
            if isinstance(node, tirx.FloorDiv):
                return tirx.Div(of(node.a), of(node.b))
            if hasattr(node, "a") and hasattr(node, "b"):
                return type(node)(of(node.a), of(node.b))
            raise NoScalableForm(f"{type(node).__name__} in the test {test}")

        return of(test)


def _quotients(expression: Any, var: Any) -> list[Any]:
    """The different quotients in an expression that a variable stands in."""
    import tvm_ffi
    from tvm import tirx

    found: list[Any] = []

    def look(node: Any) -> None:
        known = any(tvm_ffi.structural_equal(node, other) for other in found)
        if uses(node, var) and not known:
            found.append(node)

    tvm_ffi.structural_walk(expression, (tirx.FloorDiv, look))
    return found


def _with(expression: Any, old: Any, new: Any) -> Any:
    """An expression with one part replaced."""
    import tvm_ffi

    def put(node: Any) -> Any:
        return new if tvm_ffi.structural_equal(node, old) else node

    return tvm_ffi.structural_map(expression, (type(old), put))


def _conjuncts(tests: Sequence[Any]) -> list[Any]:
    from tvm import tirx

    found: list[Any] = []
    for test in tests:
        if isinstance(test, tirx.And):
            found += _conjuncts([test.a, test.b])
        else:
            found.append(test)
    return found
