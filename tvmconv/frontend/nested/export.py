"""Nodes that run nested graphs as ONNX nodes with sub-graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper, numpy_helper

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.nested.subgraphs import copied
from tvmconv.program.program import LoopForm

# the nodes of a graph, and the form of a tensor's type
Spell = Callable[[OnnxGraph], list[onnx.NodeProto]]
Declare = Callable[[TensorInfo], onnx.ValueInfoProto]


def control_nodes(node: OnnxNode, spell: Spell, declare: Declare) -> list[onnx.NodeProto]:
    """An If, Loop or Scan; ``spell`` gives the nodes of a nested graph."""
    prefix = f"{node.outputs[0]}:"
    if node.op == "If":
        condition, *outer = node.inputs
        if "only" in node.attrs:
            # a call that selects the other branch ends in an error of tvmconv
            return [helper.make_node("Identity", outer, node.outputs, node.name)]
        graphs = {
            name: _subgraph(graph, outer, f"{prefix}{name}:", spell, declare)
            for name, graph in node.attrs.items()
        }
        return [helper.make_node("If", [condition], node.outputs, node.name, **graphs)]
    form: LoopForm = node.attrs["form"]
    names = list(node.inputs)
    condition = names.pop(0) if form.guarded else ""
    own = form.states + len(form.backward)
    body = _subgraph(node.attrs["body"], names[own:], prefix, spell, declare)
    if form.backward:
        sides = {"scan_input_directions": list(map(int, form.backward))}
        if form.stacked_backward:
            sides["scan_output_directions"] = list(map(int, form.stacked_backward))
        count = len(form.backward)
        return [
            helper.make_node(
                "Scan", names[:own], node.outputs, node.name, body=body, num_scan_inputs=count,
                **sides,
            )
        ]  # fmt: skip
    inputs, outputs = list(body.input), list(body.output)
    going = TensorInfo(f"{prefix}going", (), "bool")
    if not form.counts:
        inputs.insert(0, declare(TensorInfo(f"{prefix}trip", (), "int64")))
    inputs.insert(1, declare(going))
    if not form.ends:
        body.node.append(helper.make_node("Identity", [going.name], [f"{prefix}goes_on"]))
        outputs.insert(0, declare(TensorInfo(f"{prefix}goes_on", (), "bool")))
    del body.input[:], body.output[:]
    body.input.extend(inputs)
    body.output.extend(outputs)
    count = helper.make_tensor("", onnx.TensorProto.INT64, (), [form.trips])
    trips = helper.make_node("Constant", [], [f"{prefix}trips"], value=count)
    operands = [f"{prefix}trips", condition, *names[:own]]
    return [trips, helper.make_node("Loop", operands, node.outputs, node.name, body=body)]


def _subgraph(
    graph: OnnxGraph, outer: Sequence[str], prefix: str, spell: Spell, declare: Declare
) -> onnx.GraphProto:
    """A nested graph, whose last inputs are outer values; its own values get a prefix."""
    own = len(graph.inputs) - len(outer)
    nodes = spell(graph)
    made = [name for node in nodes for name in node.output if name]
    given = [info.name for info in graph.inputs[:own]]
    names = {name: f"{prefix}{name}" for name in (*made, *given, *graph.constants)}
    names |= {info.name: name for info, name in zip(graph.inputs[own:], outer, strict=True)}
    nodes = [copied(node, names) for node in nodes]
    outputs = []
    for index, info in enumerate(graph.outputs):
        # a sub-graph's result must be made by one of its nodes
        outputs.append(TensorInfo(f"{prefix}result{index}", info.shape, info.dtype))
        nodes.append(helper.make_node("Identity", [names[info.name]], [outputs[-1].name]))
    inputs = [TensorInfo(names[i.name], i.shape, i.dtype) for i in graph.inputs[:own]]
    constants = [
        numpy_helper.from_array(value, names[name]) for name, value in graph.constants.items()
    ]
    return helper.make_graph(
        nodes,
        graph.name or "graph",
        list(map(declare, inputs)),
        list(map(declare, outputs)),
        constants,
    )
