"""Reads Scan: a node with a nested graph that runs once for each slice of its inputs.

Slices are along the first axis. Other axes are transposed before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import helper

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.inline import CORRECT, Walk, body_of, error, outer_values, read_also
from tvmconv.frontend.nested_loops import add_loop, state_inputs
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
    names = [info.name for info in body.input]
    slices = tuple(
        TensorInfo(name, info.shape[1:], info.dtype)
        for name, info in zip(names[count:], types, strict=True)
    )
    outer, constants = outer_values(walk, proto, [body])
    constants |= read_initializers(body, walk.shared.external)
    inputs = (*state_inputs(walk, proto, names[:count], states), *slices, *outer)
    graph = walk.nested(body, inputs, constants)
    form = LoopForm(lengths.pop(), count, sides.backward, sides.stacked_backward)
    results, moves = list(proto.output[:count]), []
    for name, axis, slice_ in zip(
        proto.output[count:], sides.stacked_axes, graph.outputs[count:], strict=True
    ):
        order = list(range(1, len(slice_.shape) + 1))
        place = _axis(proto, axis, len(order) + 1)
        order.insert(place, 0)
        results.append(walk.shared.fresh(name) if place and name else name)
        if results[-1] != name:
            moves.append(helper.make_node("Transpose", results[-1:], [name], perm=order))
    add_loop(walk, proto, graph, form, [*states, *whole], results)
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
