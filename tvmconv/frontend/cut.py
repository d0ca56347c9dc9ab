"""Models cut at named values, and the values at which a model with refused nodes can be cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tvmconv.core.arguments import nearest, shown
from tvmconv.core.errors import ModelError
from tvmconv.frontend.nested.subgraphs import reads

if TYPE_CHECKING:
    import onnx

# values that a message names
_NAMED = 8


def cut_model(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """The part of a model that computes the named values, which become its outputs in this order.

    Raises ``ModelError`` if no node makes one of the values.
    """
    import onnx

    graph = model.graph
    names = check_outputs(outputs)
    made = {name: node for node in graph.node for name in node.output if name}
    if unknown := [name for name in names if name not in made]:
        hints = "".join(nearest(name, made) for name in unknown)
        hints += "".join(
            f"{node.name!r} is a node, whose outputs are {list(node.output)}. "
            for node in graph.node
            if node.name in unknown
        )
        raise ModelError(
            f"outputs= (--outputs) names {unknown}{'; ' if hints else '. '}{hints}No node of the "
            "model makes them. Give the name of a value inside the model; Netron shows them."
        )
    kept = _needed(graph, names)
    needed = {name for node in kept for name in reads(node)}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    part.graph.name = graph.name
    part.graph.node.extend(kept)
    part.graph.input.extend(value for value in graph.input if value.name in needed)
    part.graph.initializer.extend(data for data in graph.initializer if data.name in needed)
    part.graph.sparse_initializer.extend(graph.sparse_initializer)
    part.graph.value_info.extend(graph.value_info)
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    for name in names:
        value = part.graph.output.add(name=name)
        if name in declared:
            value.CopyFrom(declared[name])
        else:
            value.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    return part


def check_outputs(outputs: object) -> tuple[str, ...]:
    """The argument ``outputs`` as names; raises ``ModelError`` for other values."""
    names = tuple(outputs) if isinstance(outputs, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ModelError(
            f"outputs={shown(outputs)} must be a sequence of names of values, such as ['features']"
        )
    if len(set(names)) < len(names):
        raise ModelError(f"outputs={shown(outputs)} names a value twice. Give each name once")
    return names


def cut_before(
    graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], refused: Iterable[str]
) -> tuple[str, ...]:
    """The values at which the model can be cut so that no value in ``refused`` is computed.

    These are the values that refused nodes and their followers read, and the outputs that do not
    depend on them. ``nodes`` are the graph's in execution order. The result is empty if nothing is
    left.
    """
    constants = {data.name for data in graph.initializer}
    inputs = {value.name for value in graph.input} - constants
    bad = set(refused)
    wanted: list[str] = []
    varying = set(inputs)
    for node in nodes:
        names = list(dict.fromkeys(reads(node)))
        if not bad.isdisjoint((*names, *node.output)):
            bad.update(filter(None, node.output))
            wanted += [name for name in names if name in varying]
        elif not varying.isdisjoint(names):
            varying.update(filter(None, node.output))
    wanted += [output.name for output in graph.output if output.name in varying]
    return tuple(name for name in dict.fromkeys(wanted) if name not in bad | inputs)


def cut_text(names: Sequence[str]) -> str:
    """The options that cut a model, for a message; empty without names, or with too many."""
    if not 0 < len(names) <= _NAMED:
        return ""
    from shlex import quote

    return f"--outputs {quote(','.join(names))}, in Python outputs={list(names)}"


def _needed(graph: onnx.GraphProto, names: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that make the named values, in the model's order."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    found: set[int] = set()
    pending = [makers[name] for name in names]
    while pending:
        index = pending.pop()
        if index not in found:
            found.add(index)
            pending += [makers[name] for name in reads(graph.node[index]) if name in makers]
    return [node for index, node in enumerate(graph.node) if index in found]
