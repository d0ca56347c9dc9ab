"""Reads Scan: a node with a nested graph that runs once for each slice of its inputs.

Slices are along the first axis. Other axes are transposed before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import helper

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.limits import MAX_UNROLLED_NODES
from tvmconv.frontend.nested.inline import (
    CORRECT,
    Walk,
    body_of,
    error,
    outer_values,
    read_also,
    read_trip,
)
from tvmconv.frontend.nested.nested_loops import add_loop, give_results, state_inputs
from tvmconv.frontend.nested.subgraphs import captured
from tvmconv.frontend.nested.varying import check_fixed, check_results
from tvmconv.frontend.tensors import read_initializers
from tvmconv.program.program import LoopForm

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class _Sides:
    """The number of states, and axes and directions of the scanned inputs and stacked results."""

    states: int
    axes: tuple[int, ...]
    backward: tuple[bool, ...]
    stacked_axes: tuple[int, ...]
    stacked_backward: tuple[bool, ...]


def read_scan(walk: Walk, proto: onnx.NodeProto) -> None:
    """Read a Scan."""
    body = body_of(proto, "body")
    sides = _sides(walk, proto, body)
    count = sides.states
    states = list(proto.input[:count])
    whole = [
        _first_axis(walk, proto, name, axis)
        for name, axis in zip(proto.input[count:], sides.axes, strict=True)
    ]
    types = [walk.graph.types[name] for name in whole]
    lengths = {info.shape[0] for info in types}
    if len(lengths) != 1:
        raise error(
            proto,
            f"its scanned inputs have lengths {sorted(lengths)}. Expected one length",
            CORRECT,
        )
    length = lengths.pop()
    known = all(n in walk.graph.constants for n in (*states, *whole, *captured(body)))
    if known and 0 < length * max(len(body.node), 1) <= MAX_UNROLLED_NODES:
        _read_trips(walk, proto, body, sides, whole)
        return
    names = [info.name for info in body.input]
    slices = tuple(
        TensorInfo(name, info.shape[1:], info.dtype)
        for name, info in zip(names[count:], types, strict=True)
    )
    check_fixed(walk, proto, [*states, *whole])
    own = (*state_inputs(walk, proto, names[:count], states), *slices)
    constants = read_initializers(body, walk.shared.external)
    graph = walk.nested(body, own, constants, outer_values(walk, proto, [body]))
    check_results(graph)
    form = LoopForm(length, count, sides.backward, sides.stacked_backward)
    ranks = [len(info.shape) for info in graph.outputs[count:]]
    results, moves = _moved_results(walk, proto, sides, ranks)
    add_loop(walk, proto, graph, form, [*states, *whole], results)
    read_also(walk, moves)


def _moved_results(
    walk: Walk, proto: onnx.NodeProto, sides: _Sides, ranks: list[int]
) -> tuple[list[str], list[onnx.NodeProto]]:
    """Names of the results with slices along the first axis, and nodes that move the axes."""
    count = sides.states
    results, moves = list(proto.output[:count]), []
    for name, axis, rank in zip(proto.output[count:], sides.stacked_axes, ranks, strict=True):
        order = list(range(1, rank + 1))
        place = _axis(proto, axis, rank + 1)
        order.insert(place, 0)
        results.append(walk.shared.fresh(name) if place and name else name)
        if results[-1] != name:
            moves.append(helper.make_node("Transpose", results[-1:], [name], perm=order))
    return results, moves


def _read_trips(
    walk: Walk, proto: onnx.NodeProto, body: onnx.GraphProto, sides: _Sides, whole: list[str]
) -> None:
    """Read the body of a Scan over constants in place, once for each slice."""
    count, fresh = sides.states, walk.shared.fresh
    arrays = [walk.graph.constants[name] for name in whole]
    values = list(proto.input[:count])
    slices: list[list[str]] = [[] for _ in sides.stacked_axes]
    for trip in range(len(arrays[0])):
        given = [
            walk.graph.add_constant(fresh(name), array[-1 - trip if backward else trip])
            for name, array, backward in zip(whole, arrays, sides.backward, strict=True)
        ]
        outputs = read_trip(walk, body, [*values, *given])
        values = outputs[:count]
        for made, name in zip(slices, outputs[count:], strict=True):
            made.append(name)
    ordered = [
        made[::-1] if backward else made
        for made, backward in zip(slices, sides.stacked_backward, strict=True)
    ]
    ranks = [len(walk.graph.shape(made[0])) for made in slices]
    results, moves = _moved_results(walk, proto, sides, ranks)
    # the nodes that move axes are read later
    walk.keep(results)
    give_results(walk, results, values, ordered)
    read_also(walk, moves)


def _sides(walk: Walk, proto: onnx.NodeProto, body: onnx.GraphProto) -> _Sides:
    attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    scanned = int(attributes.get("num_scan_inputs", 0))
    states = len(proto.input) - scanned
    stacked = len(body.output) - states
    if walk.graph.opset < 9:
        raise error(
            proto,
            f"a Scan of operator set {walk.graph.opset} has a batch axis. Expected operator set 9 "
            "or newer",
            "export the model again",
        )
    fits = len(proto.input) == len(body.input) and len(proto.output) == len(body.output)
    if scanned < 1 or states < 0 or stacked < 0 or not fits:
        raise error(
            proto,
            f"its body has {len(body.input)} inputs and {len(body.output)} outputs, and "
            f"num_scan_inputs is {scanned}. Expected {len(proto.input)} and {len(proto.output)}",
            CORRECT,
        )
    lists = []
    for side, length in (("input", scanned), ("output", stacked)):
        for kind in ("axes", "directions"):
            name = f"scan_{side}_{kind}"
            values = tuple(map(int, attributes.get(name, (0,) * length)))
            if len(values) != length:
                raise error(proto, f"its {name} are {values}. Expected {length} of them", CORRECT)
            lists.append(values)
    axes, directions, stacked_axes, stacked_directions = lists
    backward, stacked_backward = (tuple(map(bool, d)) for d in (directions, stacked_directions))
    return _Sides(states, axes, backward, stacked_axes, stacked_backward)


def _first_axis(walk: Walk, proto: onnx.NodeProto, name: str, axis: int) -> str:
    """A scanned input with its axis as the first one."""
    rank = len(walk.graph.types[name].shape) if name in walk.graph.types else 0
    axis = _axis(proto, axis, rank)
    if not axis:
        return name
    moved = walk.shared.fresh(name)
    order = [axis, *(place for place in range(rank) if place != axis)]
    walk.keep([moved])
    read_also(walk, [helper.make_node("Transpose", [name], [moved], perm=order)])
    return moved


def _axis(proto: onnx.NodeProto, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise error(
            proto,
            f"axis {axis} of a tensor of rank {rank}. Expected -{rank} to {rank - 1}",
            CORRECT,
        )
    return axis % rank
