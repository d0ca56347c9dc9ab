"""Reads Loop.

The trip count is a constant, or a condition that follows from constants gives it.
A Loop becomes a node with a nested graph that runs several times. These loops are read in place
instead, trip by trip: loops of one trip, loops over constants, and loops whose tensors change their
shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph
from tvmconv.frontend.limits import MAX_TRIPS, MAX_UNROLLED_NODES
from tvmconv.frontend.nested.inline import (
    CORRECT,
    Walk,
    body_of,
    check_condition,
    error,
    outer_values,
    read_trip,
    used_inputs,
)
from tvmconv.frontend.nested.nested_loops import add_loop, give_results, state_inputs
from tvmconv.frontend.nested.subgraphs import captured
from tvmconv.frontend.nested.trips import counted_trips
from tvmconv.frontend.nested.varying import check_fixed, check_results
from tvmconv.frontend.tensors import read_initializers
from tvmconv.program.program import LoopForm

if TYPE_CHECKING:
    import onnx


def read_loop(walk: Walk, proto: onnx.NodeProto) -> None:
    """Read a Loop."""
    _Loop(walk, proto).read()


class _Loop:
    """A Loop; ``trips`` is None if only its condition ends it."""

    def __init__(self, walk: Walk, proto: onnx.NodeProto) -> None:
        self.walk, self.proto = walk, proto
        self.body = body_of(proto, "body")
        self.states = list(proto.input[2:])
        self.stacked = len(self.body.output) - 1 - len(self.states)
        counts = (len(self.body.input) - 2 - len(self.states), self.stacked)
        if counts[0] or counts[1] < 0 or len(proto.output) != len(self.body.output) - 1:
            raise error(
                proto,
                f"its body has {len(self.body.input)} inputs and {len(self.body.output)} outputs. "
                f"Expected {len(proto.input)} and {len(proto.output) + 1}",
                CORRECT,
            )
        self.guard = proto.input[1] if len(proto.input) > 1 else ""
        if self.guard:
            check_condition(walk, proto, self.guard)
        self.trips = self._trips()
        # whether the number of trips includes the condition
        self.counted = False

    def read(self) -> None:
        """Read it in place, or as a nested graph."""
        if not self.guard and self.trips != 0:
            first = [value for _, value in self._parameters(0)]
            trips = counted_trips(self.walk, self.body, self.states, first, self.trips)
            self.counted = trips is not None
            self.trips = self.trips if trips is None else trips
        unrolled = (self.trips or 0) * max(len(self.body.node), 1)
        if self.trips == 0:
            self.guard = ""
            self._nest(0)
            return
        if self.trips is None or (unrolled <= MAX_UNROLLED_NODES and self._is_constant()):
            self._unroll()
            return
        if self.trips == 1 and not self.guard:
            self._unroll()
            return
        names = set(self.walk.shared.names)
        try:
            self._nest(self.trips)
        except ModelError:
            if unrolled > MAX_UNROLLED_NODES or self.guard:
                raise
            self.walk.shared.names = names
            self._unroll()

    def _trips(self) -> int | None:
        graph, proto = self.walk.graph, self.proto
        name = proto.input[0] if proto.input else ""
        if self.guard in graph.constants:
            starts = graph.constants[self.guard].any()
            self.guard = ""
            if not starts:
                return 0
        if not name:
            return None
        if name not in graph.constants:
            raise error(
                proto,
                f"its trip count {name!r} is computed at run time. Expected one that is known when "
                "the model is built",
                "make it a constant, or cut the model before the loop: `tvmconv check` prints how",
            )
        value = graph.constants[name]
        if value.size != 1 or value.dtype != np.int64:
            raise error(
                proto,
                f"its trip count is {value.dtype}{list(value.shape)}. Expected one int64",
                CORRECT,
            )
        trips = max(int(value.reshape(-1)[0]), 0)
        return None if trips > MAX_TRIPS else trips

    def _is_constant(self) -> bool:
        read = (*self.states, *captured(self.body))
        return not self.guard and all(name in self.walk.graph.constants for name in read)

    def _unroll(self) -> None:
        """Read the body in place once for each trip."""
        walk, proto, body = self.walk, self.proto, self.body
        count = len(self.states)
        values, slices = self.states, [list[str]() for _ in range(self.stacked)]
        trip = 0
        going = not self.guard
        while going and trip != self.trips:
            given = [
                walk.graph.add_constant(walk.shared.fresh(info.name), value)
                for info, value in self._parameters(trip)
            ]
            outputs = read_trip(walk, body, [*given, *values])
            condition, values = outputs[0], outputs[1 : 1 + count]
            for made, name in zip(slices, outputs[1 + count :], strict=True):
                made.append(name)
            trip += 1
            if trip == self.trips:
                break
            endless = self.trips is None and trip * len(body.node) > MAX_UNROLLED_NODES
            if condition not in walk.graph.constants or endless:
                going = False
            elif not walk.graph.constants[condition].any():
                break
        if not going:
            raise error(
                proto,
                "its condition is computed at run time, and it has no largest trip count, or its "
                "tensors change their shapes. Expected a constant trip count up to "
                f"{MAX_TRIPS} and tensors of static shapes",
                "change the loop, or cut the model before it",
            )
        give_results(walk, list(proto.output), values, slices)

    def _parameters(self, trip: int) -> list[tuple[onnx.ValueInfoProto, Array]]:
        """The body's first two inputs, and their values in a trip."""
        number, condition = self.body.input[:2]
        return [
            (number, np.asarray(trip, np.int64).reshape(_shape(number))),
            # the body runs only while the condition is true
            (condition, np.ones(_shape(condition), bool)),
        ]

    def _nest(self, trips: int) -> None:
        walk, proto, body = self.walk, self.proto, self.body
        check_fixed(walk, proto, self.states)
        names = [info.name for info in body.input]
        (number, first), (condition, always) = self._parameters(0)
        count = TensorInfo(number.name, first.shape, "int64")
        states = state_inputs(walk, proto, names[2:], self.states)
        known = {condition.name: always, **read_initializers(body, walk.shared.external)}
        outer = outer_values(walk, proto, [body])
        graph = walk.nested(body, (count, *states), known, outer)
        check_results(graph)
        ends = False if self.counted or not trips else self._ends(graph)
        if ends is None:
            trips = min(trips, 1)
        if self.stacked and (ends or self.guard):
            raise error(
                proto,
                "its condition is computed at run time, and the size of its stacked results is "
                "not known. Expected a condition that is constant, or states alone",
                "make the condition constant, or remove the stacked results",
            )
        graph.outputs = graph.outputs[0 if ends else 1 :]
        form = LoopForm(
            trips,
            len(self.states),
            stacked_backward=(False,) * self.stacked,
            counts=count.name in used_inputs(graph),
            ends=bool(ends),
            guarded=bool(self.guard),
        )
        add_loop(walk, proto, graph, form, ([self.guard] if self.guard else []) + self.states)

    def _ends(self, graph: OnnxGraph) -> bool | None:
        """Whether the body may end the loop; None if it always does."""
        condition = graph.outputs[0]
        if condition.dtype != "bool" or condition.shape not in ((), (1,)):
            raise error(self.proto, f"its condition is {condition}. Expected one bool", CORRECT)
        if condition.name not in graph.constants:
            return True
        return False if graph.constants[condition.name].any() else None


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape of a number: () or (1,)."""
    return (1,) * min(len(value.type.tensor_type.shape.dim), 1)
