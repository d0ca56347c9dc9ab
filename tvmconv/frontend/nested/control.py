"""Reads operators with sub-graphs: If here, Loop and Scan in modules of their own.

An If whose condition is known when the model is read becomes the nodes of one branch. Any other If
becomes a node with two nested graphs, of which one runs. A branch that its operands' shapes do not
allow is left out, and selecting it is an error of the call.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tvmconv.core.errors import ShapeError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.nested.inline import (
    CORRECT,
    Walk,
    body_of,
    check_condition,
    error,
    outer_values,
    read_in_place,
    used_inputs,
)
from tvmconv.frontend.nested.loops import read_loop
from tvmconv.frontend.nested.scans import read_scan
from tvmconv.frontend.nested.varying import join_results
from tvmconv.frontend.structure import all_nodes, check_operator
from tvmconv.frontend.tensors import read_initializers

if TYPE_CHECKING:
    import onnx


def read_control(walk: Walk, proto: onnx.NodeProto) -> None:
    """Read an If, a Loop or a Scan."""
    {"If": _read_if, "Loop": read_loop, "Scan": read_scan}[proto.op_type](walk, proto)


def _read_if(walk: Walk, proto: onnx.NodeProto) -> None:
    condition = proto.input[0] if proto.input else ""
    check_condition(walk, proto, condition)
    branches = {name: body_of(proto, name) for name in ("then_branch", "else_branch")}
    for name, branch in branches.items():
        if branch.input or len(branch.output) != len(proto.output):
            raise error(
                proto,
                f"its sub-graph {name!r} has {len(branch.input)} inputs and {len(branch.output)} "
                f"outputs. Expected none and {len(proto.output)}",
                CORRECT,
            )
    if condition in walk.graph.constants:
        known = bool(walk.graph.constants[condition].reshape(-1)[0])
        chosen = branches["then_branch" if known else "else_branch"]
        read_in_place(walk, chosen, {}, list(proto.output))
        return
    outer = outer_values(walk, proto, branches.values())
    nested: dict[str, OnnxGraph] = {}
    failed: dict[str, ShapeError] = {}
    for name, branch in branches.items():
        for node in all_nodes(branch):
            check_operator(node)
        own = read_initializers(branch, walk.shared.external)
        try:
            nested[name] = walk.nested(branch, (), own, outer)
        except ShapeError as problem:
            failed[name] = problem
    if len(failed) > 1:
        raise failed["then_branch"]
    if failed:
        _read_only(walk, proto, condition, failed)
        return
    _add(walk, proto, condition, nested)


def _read_only(
    walk: Walk, proto: onnx.NodeProto, condition: str, failed: dict[str, ShapeError]
) -> None:
    """Read the one branch that can run, in place. A call that selects the other one fails.

    A branch for inputs of another shape cannot be built, and onnxruntime cannot run it either.
    """
    ((name, problem),) = failed.items()
    taken = name == "else_branch"
    wanted = [output for output in proto.output if output]
    results = {wanted[0]: walk.shared.fresh(wanted[0])}
    outputs = [results.get(output, output) for output in proto.output]
    live = body_of(proto, "then_branch" if taken else "else_branch")
    read_in_place(walk, live, {}, outputs)
    value = walk.graph.types[results[wanted[0]]]
    walk.keep([value.name])
    walk.graph.types[wanted[0]] = TensorInfo(wanted[0], value.shape, value.dtype)
    if value.name in walk.graph.extents:
        walk.graph.extents[wanted[0]] = walk.graph.extents[value.name]
    own_name = walk.shared.own_name(proto)
    warnings.warn(
        f"node {own_name!r} (If): its {name} cannot run with these shapes. A call that selects it "
        f"fails. The reason: {problem}",
        stacklevel=2,
    )
    attrs = {"only": taken}
    read = (condition, value.name)
    walk.graph.nodes.append(OnnxNode(own_name, "If", read, (wanted[0],), attrs, walk.graph.opset))


def _add(walk: Walk, proto: onnx.NodeProto, condition: str, nested: dict[str, OnnxGraph]) -> None:
    """Add a node that runs one of two nested graphs."""
    graph = walk.graph
    wanted = [place for place, name in enumerate(proto.output) if name]
    for branch in nested.values():
        branch.outputs = tuple(branch.outputs[place] for place in wanted)
    then, other = nested["then_branch"], nested["else_branch"]
    names = [proto.output[place] for place in wanted]
    outputs = join_results(walk, proto, then, other, names)
    used = used_inputs(then) | used_inputs(other)
    inputs = tuple(info for info in then.inputs if info.name in used)
    then.inputs = other.inputs = inputs
    name = walk.shared.own_name(proto)
    read = (condition, *(info.name for info in inputs))
    graph.nodes.append(OnnxNode(name, "If", read, outputs, dict(nested), graph.opset))
