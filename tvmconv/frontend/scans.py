"""Reads Scan: a node with a nested graph that runs once for each slice of its inputs.

Slices are along the first axis. Other axes are transposed before and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.inline import CORRECT, Walk, body_of, error, outer_values, read_also
from tvmconv.frontend.nested_loops import add_loop, state_inputs
from tvmconv.frontend.tensors import read_initializers
from tvmconv.program.program import LoopForm

if TYPE_CHECKING:
    import onnx


def read_scan(walk: Walk, proto: onnx.NodeProto) -> None:
    """Read a Scan."""
    body = body_of(proto, "body")
    attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    scanned = int(attributes.get("num_scan_inputs", 0))
    count = len(proto.input) - scanned
    stacked = len(body.output) - count
    if walk.graph.opset < 9:
        raise error(
            proto,
            f"a Scan of operator set {walk.graph.opset} has a batch axis, which is not supported",
            "export the model with operator set 9 or newer",
        )
    fits = len(proto.input) == len(body.input) and len(proto.output) == len(body.output)
    if scanned < 1 or count < 0 or stacked < 0 or not fits:
        raise error(
            proto,
            f"its body has {len(body.input)} inputs and {len(body.output)} outputs, which do not "
            f"fit {len(proto.input)} inputs, of which {scanned} are scanned, and "
            f"{len(proto.output)} outputs",
            CORRECT,
        )
    sides = {
        name: tuple(map(int, attributes.get(name, (0,) * length)))
        for length, side in ((scanned, "input"), (stacked, "output"))
        for name in (f"scan_{side}_axes", f"scan_{side}_directions")
    }
    if any(len(v) != (scanned if "input" in name else stacked) for name, v in sides.items()):
        raise error(proto, f"its axes or directions have wrong lengths: {sides}", CORRECT)
    states = list(proto.input[:count])
    whole = [
        _first_axis(walk, proto, name, axis)
        for name, axis in zip(proto.input[count:], sides["scan_input_axes"], strict=True)
    ]
    lengths = {walk.graph.shape(name)[0] for name in whole}
    if len(lengths) != 1:
        raise error(proto, f"its scanned inputs have lengths {sorted(lengths)}", CORRECT)
    names = [info.name for info in body.input]
    slices = tuple(
        TensorInfo(name, walk.graph.shape(of)[1:], walk.graph.types[of].dtype)
        for name, of in zip(names[count:], whole, strict=True)
    )
    outer, constants = outer_values(walk, proto, [body])
    constants |= read_initializers(body, walk.shared.external)
    inputs = (*state_inputs(walk, proto, names[:count], states), *slices, *outer)
    graph = walk.nested(body, inputs, constants)
    form = LoopForm(
        lengths.pop(),
        count,
        backward=tuple(map(bool, sides["scan_input_directions"])),
        stacked_backward=tuple(map(bool, sides["scan_output_directions"])),
    )
    ranks = [len(info.shape) + 1 for info in graph.outputs[count:]]
    axes = [
        _axis(proto, axis, rank)
        for axis, rank in zip(sides["scan_output_axes"], ranks, strict=True)
    ]
    fresh = walk.shared.fresh
    made = [
        fresh(name) if axis and name else name
        for name, axis in zip(proto.output[count:], axes, strict=True)
    ]
    results = [*proto.output[:count], *made]
    add_loop(walk, proto, graph, form, [*states, *whole], results)
    after = [
        helper.make_node("Transpose", [name], [target], perm=_back(rank, axis))
        for name, target, axis, rank in zip(made, proto.output[count:], axes, ranks, strict=True)
        if name != target
    ]
    read_also(walk, after)


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


def _back(rank: int, axis: int) -> list[int]:
    """The permutation that makes the first axis another one."""
    order = list(range(1, rank))
    order.insert(axis, 0)
    return order


def _axis(proto: onnx.NodeProto, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise error(proto, f"axis {axis} is outside a tensor of rank {rank}", CORRECT)
    return axis % rank
