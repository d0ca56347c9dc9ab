"""The number of trips of a Loop whose condition follows from constants.

Exporters write counted loops with a counter among the states and a comparison as the condition. The
nodes that the condition depends on are evaluated trip by trip, without the rest of the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx

from tvmconv.frontend.graph import Array
from tvmconv.frontend.limits import MAX_COUNTED_NODES
from tvmconv.frontend.nested.inline import OuterValues
from tvmconv.frontend.nested.subgraphs import reads
from tvmconv.frontend.structure import in_execution_order
from tvmconv.frontend.tensors import read_initializers

if TYPE_CHECKING:
    from tvmconv.frontend.nested.inline import Walk


def counted_trips(
    walk: Walk,
    body: onnx.GraphProto,
    states: list[str],
    parameters: list[Array],
    most: int | None,
) -> int | None:
    """Trips up to ``most``; None if the condition depends on more than constants.

    ``states`` are the initial values. ``parameters`` are the body's first two inputs in the first
    trip.
    """
    names = [info.name for info in body.input]
    slice_ = _Slice(body, names)
    constants = walk.graph.constants
    outer = {name: constants[name] for name in slice_.outer if name in constants}
    counting = slice_.states or names[0] in slice_.inputs
    initial = [states[index] for index in slice_.states]
    if not counting or set(outer) != slice_.outer or not all(n in constants for n in initial):
        return None
    known = {**outer, **read_initializers(body, walk.shared.external), names[1]: parameters[1]}
    values = [constants[name] for name in initial]
    node_names = set(walk.shared.names)
    trip, going = 0, True
    while going and trip != most and trip * len(slice_.graph.node) <= MAX_COUNTED_NODES:
        given = {names[2 + i]: value for i, value in zip(slice_.states, values, strict=True)}
        number = np.full_like(parameters[0], trip)
        graph = walk.nested(slice_.graph, (), {**known, **given, names[0]: number}, OuterValues())
        walk.shared.names = set(node_names)
        results = [graph.constants.get(info.name) for info in graph.outputs]
        found = [value for value in results if value is not None]
        if len(found) < len(results):
            return None
        condition, *values = found
        trip, going = trip + 1, bool(condition.any())
    return None if going and trip != most else trip


class _Slice:
    """The part of a body that its condition depends on.

    ``states`` are the numbers of the states that it reads, and ``graph`` computes the condition and
    these states. ``inputs`` and ``outer`` are names of the body's inputs and of outer values.
    """

    def __init__(self, body: onnx.GraphProto, names: list[str]) -> None:
        producers = {name: node for node in body.node for name in node.output if name}
        own = {*names, *(tensor.name for tensor in body.initializer)}
        self.states: list[int] = []
        self.inputs: set[str] = set()
        self.outer: set[str] = set()
        kept: set[str] = set()
        pending = [body.output[0].name]
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in producers:
                kept.update(producers[name].output)
                pending += reads(producers[name])
            elif name in names:
                self.inputs.add(name)
                index = names.index(name) - 2
                if index >= 0:
                    self.states.append(index)
                    pending.append(body.output[1 + index].name)
            elif name not in own:
                self.outer.add(name)
        self.graph = onnx.GraphProto(name=body.name)
        nodes = in_execution_order(body)
        self.graph.node.extend(node for node in nodes if not kept.isdisjoint(node.output))
        results = [0, *(1 + index for index in self.states)]
        self.graph.output.extend(body.output[place] for place in results)
