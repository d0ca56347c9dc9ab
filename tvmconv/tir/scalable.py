"""Expressions over scalable vectors: one segment of 128 bits for each of several pixels.

A part of :func:`tvmconv.tir.segments.Segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.tir.conditions import is_select
from tvmconv.tir.rewrite import substitute, uses

# float32 values of a segment
SEGMENT = 4
FLOATS, FLAGS = "float32xvscalex4", "boolxvscalex4"
_ALL = 31  # the pattern of ptrue that sets every lane


class NoScalableForm(Exception):
    """An expression for which there are no instructions on several pixels at once."""


def length() -> Any:
    """float32 values of a vector."""
    from tvm import tirx

    return tirx.vscale() * SEGMENT


def intrinsic(dtype: str, name: str, *arguments: Any) -> Any:
    """A call of one of LLVM's functions for SVE that has no effect."""
    from tvm import tirx

    return tirx.call_llvm_pure_intrin(dtype, f"llvm.aarch64.sve.{name}", *arguments)


def number(value: int) -> Any:
    """An index."""
    from tvm import tirx

    return tirx.IntImm("int32", value)


@dataclass
class Pixels:
    """One vector of pixels: how expressions of a single pixel are computed for all of them.

    Parameters
    ----------
    pixel
        The variable that numbers the pixels.
    first
        Number of the vector's first pixel.
    count
        Pixels there are; the lanes of others are neither read nor written.
    private
        Buffers of one pixel -> those of the vector, by place.
    analyzer
        TVM's arithmetic analyzer.
    """

    pixel: Any
    first: Any
    count: int
    private: dict[Any, dict[int, Any]]
    analyzer: Any

    def place(self, index: Any) -> Any:
        """The index of the first pixel's value."""
        return substitute(index, {self.pixel: self.first})

    def varies(self, expression: Any) -> bool:
        """Whether an expression differs from pixel to pixel."""
        return uses(expression, self.pixel)

    def value(self, node: Any, tests: Sequence[Any] = ()) -> Any:
        """An expression of four lanes, or of one that is the same for all.

        Parameters
        ----------
        node
            The expression of one pixel.
        tests
            Conditions of its pixel under which memory may be read; elsewhere it is zero.

        Raises
        ------
        NoScalableForm
            If there is no such expression.
        """
        from tvm import ir, tirx

        if isinstance(node, tirx.Add):
            return self._sum(node, tests)
        if isinstance(node, tirx.Broadcast):
            return self._spread(node.value, tests)
        if isinstance(node, ir.expr.TensorLoad):
            return self._load(node, tests)
        if isinstance(node, tirx.Select):
            return tirx.Select(*(self.value(e, tests) for e in _parts(node)))
        if isinstance(node, tirx.Not):
            return tirx.Not(self.value(node.a, tests))
        if isinstance(node, tirx.Cast):
            kind = str(node.ty.dtype).split("x")[0]
            return tirx.Cast(f"{kind}xvscalex{SEGMENT}", self.value(node.value, tests))
        if isinstance(node, ir.Call):
            return self._call(node, tests)
        if hasattr(node, "a") and hasattr(node, "b"):
            return type(node)(self.value(node.a, tests), self.value(node.b, tests))
        raise NoScalableForm(f"{type(node).__name__} of {node}")

    def _sum(self, node: Any, tests: Sequence[Any]) -> Any:
        """``a + b``; a product that takes one lane of each segment as a factor is one with it."""
        from tvm import tirx

        if isinstance(node.b, tirx.Mul):
            for factor, other in ((node.b.a, node.b.b), (node.b.b, node.b.a)):
                found = self._lane(factor, tests)
                if found is not None:
                    vector, lane = found
                    total = self.value(node.a, tests)
                    return intrinsic(
                        FLOATS, "fmla.lane", total, self.value(other, tests), vector, lane
                    )
        return tirx.Add(self.value(node.a, tests), self.value(node.b, tests))

    def _lane(self, node: Any, tests: Sequence[Any]) -> tuple[Any, Any] | None:
        """The vector and the lane of each segment that a spread scalar is; None if it is none."""
        from tvm import ir, tirx

        if isinstance(node, tirx.Shuffle) and len(node.vectors) == 1:
            (vector,), lanes = node.vectors, {int(lane) for lane in node.indices}
            if len(lanes) == 1 and self.varies(vector.indices[0]):
                return self.value(vector, tests), number(*lanes)
        if not isinstance(node, tirx.Broadcast):
            return None
        load, guards = node.value, list(tests)
        while isinstance(load, ir.Call) and is_select(load) and _is_zero(load.args[2]):
            guards.append(load.args[0])
            load = load.args[1]
        if not isinstance(load, ir.expr.TensorLoad) or not self.varies(load.indices[0]):
            return None
        (index,) = load.indices
        known = self.analyzer.modular_set(index)
        if int(known.coeff) % SEGMENT:
            raise NoScalableForm(f"channels of {load} that start inside a segment")
        lane = int(known.base) % SEGMENT
        vector = tirx.BufferLoad(load.source, [tirx.Ramp(index - lane, number(1), SEGMENT)])
        return self._load(vector, guards), number(lane)

    def _spread(self, scalar: Any, tests: Sequence[Any]) -> Any:
        """One value in all lanes of its segment."""
        from tvm import tirx

        found = self._lane(tirx.Broadcast(scalar, SEGMENT), tests)
        if found is not None:
            vector, lane = found
            zero, one = (tirx.Broadcast(tirx.FloatImm("float32", v), length()) for v in (0.0, 1.0))
            return intrinsic(FLOATS, "fmla.lane", zero, one, vector, lane)
        if self.varies(scalar):
            raise NoScalableForm(f"a scalar of each pixel, {scalar}")
        return tirx.Broadcast(scalar, length())

    def _load(self, load: Any, tests: Sequence[Any]) -> Any:
        from tvm import tirx

        (index,) = load.indices
        if load.source in self.private:
            return tirx.BufferLoad(self.own(load.source, index), [number(0)])
        first = self._first(load.source, index)
        if self.varies(first):
            address = self.address(load.source, index)
            return intrinsic(FLOATS, "ld1", self.mask(tests), address)
        whole = intrinsic(FLAGS, "ptrue", number(_ALL))
        address = tirx.address_of(tirx.BufferLoad(load.source, [first]))
        return intrinsic(FLOATS, "ld1rq", whole, address)

    def _first(self, buffer: Any, index: Any) -> Any:
        """Where four neighbouring values begin."""
        from tvm import tirx

        if int(buffer.dtype.lanes) == SEGMENT:
            return index
        if isinstance(index, tirx.Ramp) and int(index.stride) == 1:
            return index.base
        raise NoScalableForm(f"lanes that lie apart, {index} of {buffer.name}")

    def address(self, buffer: Any, index: Any) -> Any:
        """Where neighbouring pixels' vectors begin, each one segment behind the other."""
        from tvm import tirx

        first = self._first(buffer, index)
        wanted = SEGMENT // int(buffer.dtype.lanes)
        step = self.analyzer.simplify(substitute(first, {self.pixel: self.pixel + 1}) - first)
        if not _is_number(step, wanted) or not str(buffer.dtype).startswith("float32"):
            raise NoScalableForm(f"pixels that lie {step} apart in {buffer.name}")
        return tirx.address_of(tirx.BufferLoad(buffer, [self.place(first)]))

    def own(self, buffer: Any, index: Any) -> Any:
        """The vector that stands for a private value of each pixel."""
        from tvm import tirx

        first = index.base if isinstance(index, tirx.Ramp) else index
        place = self.analyzer.simplify(first)
        if not isinstance(place, tirx.IntImm):
            raise NoScalableForm(f"place {place} of {buffer.name}")
        return self.private[buffer][int(place)]

    def _call(self, node: Any, tests: Sequence[Any]) -> Any:
        from tvm import ir, tirx

        if is_select(node):
            condition, value, other = node.args
            if not self.varies(condition):
                return tirx.if_then_else(
                    condition, self.value(value, tests), self.value(other, tests)
                )
            if _is_zero(other):
                return self.value(value, [*tests, condition])
            raise NoScalableForm(f"a choice of each pixel, {condition}")
        kind = str(node.ty.dtype).split("x")[0]
        arguments = [self.value(argument, tests) for argument in node.args]
        return ir.Call(node.op, arguments, ret_ty=ir.PrimType(f"{kind}xvscalex{SEGMENT}"))

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
        if _is_number(slope, -1):
            bound = self.analyzer.simplify(rest + variable)
        elif _is_number(slope, 1):
            bound = self.analyzer.simplify(variable - rest + 1)
        else:
            return None
        return _is_number(slope, -1), bound * width - offset

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


def _parts(select: Any) -> tuple[Any, Any, Any]:
    return select.condition, select.true_value, select.false_value


def _conjuncts(tests: Sequence[Any]) -> list[Any]:
    from tvm import tirx

    found: list[Any] = []
    for test in tests:
        if isinstance(test, tirx.And):
            found += _conjuncts([test.a, test.b])
        else:
            found.append(test)
    return found


def _is_zero(node: Any) -> bool:
    from tvm import tirx

    if isinstance(node, tirx.Broadcast):
        node = node.value
    return isinstance(node, tirx.FloatImm) and float(node.value) == 0.0


def _is_number(node: Any, value: int) -> bool:
    from tvm import tirx

    return isinstance(node, tirx.IntImm) and int(node) == value
