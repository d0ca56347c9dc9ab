"""Expressions over scalable vectors: one 128-bit segment for each of several positions.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import substitute
from tvmconv.tir.sve.gathers import gathered
from tvmconv.tir.sve.integers import extended, integer_call, narrowed
from tvmconv.tir.sve.interleaved_panels import Panels
from tvmconv.tir.sve.predicates import Lanes
from tvmconv.tir.sve.vectors import (
    ALL,
    BYTES,
    FLAGS,
    FLOATS,
    INTEGERS,
    SEGMENT,
    NoScalableForm,
    intrinsic,
    is_bytes,
    is_number,
    length,
    number,
    of_segment,
    scalable,
)

# operations with an instruction. LLVM would call a function for each lane of others, which is not
# possible for scalable vectors
_OPERATIONS = {
    f"tirx.{name}"
    for name in (
        *("floor", "ceil", "trunc", "nearbyint", "sqrt", "fabs", "fma", "reinterpret"),
        *("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
    )
}


@dataclass
class Pixels(Lanes):
    """One vector of positions: computes the expression of a single position for all of them.

    ``private`` has the buffers of the vector, by element, for buffers of one position. ``tile`` is
    the tile's index, and the offset of the vector in the tile, in segments.
    """

    private: dict[Any, dict[int, Any]]
    panels: Panels
    tile: tuple[Any, Any]

    def place(self, index: Any) -> Any:
        """The index of the first position's value."""
        return substitute(index, {self.pixel: self.first})

    def value(self, node: Any, tests: Sequence[Any] = ()) -> Any:
        """An expression of four lanes, or a scalar that is the same for all lanes.

        Raises ``NoScalableForm`` if scalable vectors cannot compute the expression. ``node`` is the
        expression of one position. ``tests`` are conditions under which a position may be read;
        elsewhere the value is zero.
        """
        if isinstance(node, tirx.Add):
            return self._sum(node, tests)
        if isinstance(node, tirx.Broadcast):
            return self._spread(node, tests)
        if isinstance(node, tirx.Shuffle):
            common = self._common_lane(node)
            if common is not None:
                return tirx.Broadcast(common, length())
            return narrowed(node, lambda operand: self.value(operand, tests))
        if isinstance(node, ir.expr.TensorLoad):
            return self._load(node, tests)
        if isinstance(node, tirx.Select):
            return tirx.Select(*(self.value(e, tests) for e in _parts(node)))
        if isinstance(node, tirx.Not):
            return tirx.Not(self.value(node.a, tests))
        if isinstance(node, tirx.Cast):
            if is_bytes(node.value.ty.dtype):
                return tirx.Cast(scalable(node.ty.dtype), self._bytes(node.value, tests))
            return tirx.Cast(scalable(node.ty.dtype), self.value(node.value, tests))
        if isinstance(node, ir.Call):
            return self._call(node, tests)
        if hasattr(node, "a") and hasattr(node, "b"):
            return type(node)(self.value(node.a, tests), self.value(node.b, tests))
        raise NoScalableForm(f"{type(node).__name__} of {node}")

    def _sum(self, node: Any, tests: Sequence[Any]) -> Any:
        """``a + b``, or an FMA if the product has a factor that is one lane of each segment."""
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
        """The vector and the lane that a scalar broadcasts in each segment; None for others."""
        if isinstance(node, tirx.Shuffle) and len(node.vectors) == 1:
            (vector,), lanes = node.vectors, {int(lane) for lane in node.indices}
            if len(lanes) == 1:
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

    def _common_lane(self, node: Any) -> Any:
        """The scalar that a shuffle repeats, if it is the same for all positions; else None."""
        (vector, *others), (lane, *more) = node.vectors, {int(index) for index in node.indices}
        if others or more or not isinstance(vector, ir.expr.TensorLoad):
            return None
        plain = int(vector.source.dtype.lanes) == 1 and vector.source not in self.private
        if self.varies(vector) or not plain:
            return None
        return tirx.BufferLoad(
            vector.source, [self._first(vector.source, vector.indices[0]) + lane]
        )

    def _spread(self, node: Any, tests: Sequence[Any]) -> Any:
        """A broadcast scalar in all lanes of its segment."""
        scalar = node.value
        if is_bytes(scalar.ty.dtype) and not self.varies(scalar):
            return tirx.Broadcast(scalar, tirx.vscale() * int(node.lanes))
        found = self._lane(tirx.Broadcast(scalar, SEGMENT), tests)
        if found is not None:
            vector, lane = found
            zero, one = (tirx.Broadcast(tirx.FloatImm("float32", v), length()) for v in (0.0, 1.0))
            return intrinsic(FLOATS, "fmla.lane", zero, one, vector, lane)
        return self._number(scalar) if self.varies(scalar) else tirx.Broadcast(scalar, length())

    def _number(self, scalar: Any) -> Any:
        """A scalar that depends on position indices only, such as the taps of a window."""
        if not self.varies(scalar):
            return tirx.Broadcast(scalar, length())
        if isinstance(scalar, tirx.Cast) and str(scalar.value.ty.dtype) == "int32":
            return tirx.Cast(FLOATS, self.each(scalar.value, self.numbers()))
        binary = isinstance(scalar, tirx.Add | tirx.Sub | tirx.Mul | tirx.Div)
        if binary and str(scalar.ty.dtype) == "float32":
            return type(scalar)(self._number(scalar.a), self._number(scalar.b))
        raise NoScalableForm(f"a scalar of each position, {scalar}")

    def _load(self, load: Any, tests: Sequence[Any]) -> Any:
        (index,) = load.indices
        if load.source in self.private:
            return tirx.BufferLoad(self.own(load.source, index), [number(0)])
        first = self._first(load.source, index)
        if self.varies(first):
            if load.source not in self.panels.buffers and not self.adjacent(load.source, first):
                return gathered(self, load.source, first, tests)
            return self._loaded(load, "ld1", self.mask(tests), self.address(load.source, index))
        whole = intrinsic(FLAGS, "ptrue", number(ALL))
        address = tirx.address_of(tirx.BufferLoad(load.source, [first]))
        return self._loaded(load, "ld1rq", whole, address)

    def _loaded(self, load: Any, name: str, mask: Any, address: Any) -> Any:
        """A load of whole segments; bytes are loaded as dwords, which masks count."""
        if not is_bytes(load.source.dtype):
            return intrinsic(scalable(load.ty.dtype), name, mask, address)
        if int(load.ty.dtype.lanes) != of_segment(load.source.dtype):
            raise NoScalableForm(f"{load.ty.dtype.lanes} bytes of {load.source.name}")
        return tirx.reinterpret(BYTES, intrinsic(INTEGERS, name, mask, address))

    def _bytes(self, load: Any, tests: Sequence[Any]) -> Any:
        """Four bytes of one position of a segment as int32, see :func:`.integers.extended`."""
        if not isinstance(load, ir.expr.TensorLoad) or str(load.ty.dtype) != f"int8x{SEGMENT}":
            raise NoScalableForm(f"bytes of {load}")
        index, items = self._first(load.source, load.indices[0]), of_segment(load.source.dtype)
        known = self.analyzer.modular_set(index)
        if int(known.coeff) % items or int(known.base) % SEGMENT:
            raise NoScalableForm(f"bytes of {load.source.name} that start inside a dword")
        place = int(known.base) % items
        whole = tirx.Ramp(index - place, number(1), items)
        return extended(self._load(tirx.BufferLoad(load.source, [whole]), tests), place // SEGMENT)

    def _first(self, buffer: Any, index: Any) -> Any:
        """The index at which four contiguous values begin."""
        if int(buffer.dtype.lanes) == SEGMENT:
            return index
        if isinstance(index, tirx.Ramp) and int(index.stride) == 1:
            return index.base
        raise NoScalableForm(f"lanes that are not contiguous, {index} of {buffer.name}")

    def address(self, buffer: Any, index: Any) -> Any:
        """The address of the segments of neighboring positions, which are contiguous."""
        first = self._first(buffer, index)
        if buffer in self.panels.buffers:
            step = self.analyzer.simplify(substitute(first, {self.pixel: number(0)}))
            place = self.panels.place(buffer, *self.tile, step)
        elif self.adjacent(buffer, first):
            place = self.place(first)
        else:
            raise NoScalableForm(f"positions that are not contiguous in {buffer.name}, {first}")
        return tirx.address_of(tirx.BufferLoad(buffer, [place]))

    def adjacent(self, buffer: Any, first: Any) -> bool:
        """Whether the values of neighboring positions, which begin at ``first``, are contiguous."""
        wanted = of_segment(buffer.dtype)
        step = self.analyzer.simplify(substitute(first, {self.pixel: self.pixel + 1}) - first)
        return wanted > 0 and is_number(step, wanted)

    def own(self, buffer: Any, index: Any) -> Any:
        """The vector that replaces a private value of each position."""
        first = index.base if isinstance(index, tirx.Ramp) else index
        place = self.analyzer.simplify(first)
        if not isinstance(place, tirx.IntImm):
            raise NoScalableForm(f"the index {place} of {buffer.name}")
        return self.private[buffer][int(place)]

    def _call(self, node: Any, tests: Sequence[Any]) -> Any:
        if is_select(node):
            condition, value, other = node.args
            if not self.varies(condition):
                return tirx.if_then_else(
                    condition, self.value(value, tests), self.value(other, tests)
                )
            if _is_zero(other) and self._left_out(value):
                return self.value(value, [*tests, condition])
            shared, own = self.divided(condition)
            chosen = self.value(value, [*tests, *own])
            found = tirx.Select(self.mask(own), chosen, self.value(other, tests))
            for test in shared:
                found = tirx.if_then_else(test, found, self.value(other, tests))
            return found
        found = integer_call(node, lambda operand: self.value(operand, tests))
        if found is not None:
            return found
        if getattr(node.op, "name", "") not in _OPERATIONS:
            raise NoScalableForm(f"a call of {node.op}")
        arguments = [self.value(argument, tests) for argument in node.args]
        return ir.Call(node.op, arguments, ret_ty=ir.PrimType(scalable(node.ty.dtype)))

    def _left_out(self, node: Any) -> bool:
        """Whether an expression is zero in masked lanes: a load, or a product with a load.

        A load of the same address for all positions fills every lane, so it is not zero there.
        """
        if isinstance(node, tirx.Mul):
            return self._left_out(node.a) or self._left_out(node.b)
        if isinstance(node, ir.Call) and is_select(node):
            return _is_zero(node.args[2]) and self._left_out(node.args[1])
        load = node.value if isinstance(node, tirx.Broadcast) else node
        return isinstance(load, ir.expr.TensorLoad) and self.varies(load.indices[0])


def _parts(select: Any) -> tuple[Any, Any, Any]:
    return select.condition, select.true_value, select.false_value


def _is_zero(node: Any) -> bool:
    if isinstance(node, tirx.Broadcast):
        node = node.value
    return isinstance(node, tirx.FloatImm) and float(node.value) == 0.0
