"""Nodes that run a nested graph several times, for Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.nested.inline import CORRECT, Walk, error, read_also, used_inputs
from tvmconv.frontend.tensors import check_shape
from tvmconv.program.program import LoopForm

if TYPE_CHECKING:
    import onnx


def state_inputs(
    walk: Walk, proto: onnx.NodeProto, names: list[str], values: list[str]
) -> tuple[TensorInfo, ...]:
    """Inputs of a body for the states, with the shapes of their initial values."""
    types = walk.graph.types
    for value in values:
        if value not in types:
            raise error(proto, f"its input {value!r} has no shape that can be inferred", CORRECT)
    return tuple(
        TensorInfo(name, types[value].shape, types[value].dtype)
        for name, value in zip(names, values, strict=True)
    )


def give_results(
    walk: Walk, results: Sequence[str], states: Sequence[str], slices: Sequence[Sequence[str]]
) -> None:
    """Name the results of a loop that was read in place, and stack slices along a new axis."""
    count = len(states)
    nodes = [
        helper.make_node("Identity", [name], [target])
        for name, target in zip(states, results[:count], strict=True)
        if target
    ]
    for names, target in zip(slices, results[count:], strict=True):
        if target:
            nodes += _stacked(walk, names, target)
    read_also(walk, nodes)


def _stacked(walk: Walk, names: Sequence[str], target: str) -> list[onnx.NodeProto]:
    fresh = walk.shared.fresh
    nodes, parts = [], []
    for name in names:
        shape = np.asarray((1, *walk.graph.shape(name)), np.int64)
        to = walk.graph.add_constant(fresh(f"{target}.shape"), shape)
        parts.append(fresh(name))
        nodes.append(helper.make_node("Reshape", [name, to], [parts[-1]]))
    return [*nodes, helper.make_node("Concat", parts, [target], axis=0)]


def add_loop(
    walk: Walk,
    proto: onnx.NodeProto,
    body: OnnxGraph,
    form: LoopForm,
    operands: list[str],
    results: list[str] | None = None,
) -> None:
    """Add a node that runs a nested graph several times.

    ``operands`` are the condition of a guarded loop, states and scanned tensors. The inputs of the
    body also have the trip's number first, in any case, and outer values last.
    """
    graph = walk.graph
    names = [name or walk.shared.fresh("unused") for name in results or proto.output]
    inner = body.outputs[int(form.ends) :]
    first = int(proto.op_type == "Loop")
    own = first + form.states + len(form.backward)
    for before, after in zip(body.inputs[first:], inner[: form.states], strict=False):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise error(
                proto,
                f"its state {before.name!r} changes from {before.dtype}{list(before.shape)} to "
                f"{after.dtype}{list(after.shape)} in a trip. Expected one shape and type in all "
                "trips",
                "pad the state to its largest size, or cut the model before the loop",
            )
    for index, (name, info) in enumerate(zip(names, inner, strict=True)):
        shape = info.shape if index < form.states else (form.trips, *info.shape)
        check_shape(shape, info.dtype, f"node {proto.name!r} ({proto.op_type}): output {name!r}")
        graph.types[name] = TensorInfo(name, shape, info.dtype)
    used = used_inputs(body)
    outer = [info for info in body.inputs[own:] if info.name in used]
    number = body.inputs[:first] if form.counts else ()
    body.inputs = (*number, *body.inputs[first:own], *outer)
    operands = [*operands, *(info.name for info in outer)]
    if form.trips:
        attrs = {"body": body, "form": form}
        name = walk.shared.own_name(proto)
        node = OnnxNode(name, "Loop", tuple(operands), tuple(names), attrs, graph.opset)
        graph.nodes.append(node)
        return
    for name, initial in zip(names[: form.states], operands, strict=False):
        walk.read([helper.make_node("Identity", [initial], [name])])
    for name in names[form.states :]:
        info = graph.types.pop(name)
        graph.add_constant(name, np.zeros(info.shape, info.dtype))
