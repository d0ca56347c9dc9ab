"""Structural checks of a parsed model, before its tensors are decoded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING

from tvmconv.core.errors import ModelError
from tvmconv.frontend.limits import (
    MAX_ATTRIBUTE_VALUES,
    MAX_NESTING,
    MAX_NODE_VALUES,
    MAX_NODES,
    MIN_IR_VERSION,
    MIN_OPSET,
)
from tvmconv.frontend.nested.subgraphs import reads, subgraphs
from tvmconv.frontend.operators import MICROSOFT, is_imported, own_domain
from tvmconv.frontend.reasons import reason_of

if TYPE_CHECKING:
    import onnx


def describe(node: onnx.NodeProto) -> str:
    """How errors call a node: its name or first output, and its operator."""
    name = node.name or next(iter(node.output), "")
    return f"node {name!r} ({node.op_type or 'no operator'})"


def check_versions(model: onnx.ModelProto) -> int:
    """Check IR and operator-set versions; returns the default operator set's version."""
    import onnx

    if not MIN_IR_VERSION <= model.ir_version <= onnx.IR_VERSION:
        raise ModelError(
            f"the model's IR version {model.ir_version} is outside {MIN_IR_VERSION} to "
            f"{onnx.IR_VERSION}. Export it again, or install a newer onnx package."
        )
    versions = [s.version for s in model.opset_import if s.domain in ("", "ai.onnx")]
    if len(versions) != 1:
        raise ModelError(
            f"the model imports the default operator set {len(versions)} times. "
            "It must do so once. Export it again."
        )
    newest = onnx.defs.onnx_opset_version()
    if not MIN_OPSET <= versions[0] <= newest:
        raise ModelError(
            f"operator set {versions[0]} is outside {MIN_OPSET} to {newest}. Convert the model "
            "with onnx.version_converter, or install a newer onnx package."
        )
    return int(versions[0])


def check_structure(model: onnx.ModelProto) -> None:
    """Check counts, names, nesting, domains, and that no value depends on itself."""
    graph = model.graph
    if not graph.output:
        raise ModelError("the graph has no outputs. Export the model again.")
    nodes = list(all_nodes(graph))
    if len(nodes) > MAX_NODES:
        raise ModelError(
            f"the model has too many nodes: {len(nodes)}. Expected at most {MAX_NODES}. "
            "Split the model, or simplify it with onnxsim"
        )
    for node in nodes:
        _check_node(node)
    _check_values(graph, "", ())


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and its sub-graphs.

    Raises ``ModelError`` if sub-graphs are nested too deeply.
    """
    pending = [(graph, 0)]
    while pending:
        current, depth = pending.pop()
        if depth > MAX_NESTING:
            raise ModelError(f"sub-graphs are nested deeper than {MAX_NESTING}. Flatten the model.")
        for node in current.node:
            yield node
            pending.extend((inner, depth + 1) for inner in subgraphs(node))


def check_operator(node: onnx.NodeProto) -> None:
    """Refuse a node of an operator that the reader does not know."""
    if is_imported(node.domain, node.op_type):
        return
    reason = reason_of(node.domain, node.op_type)
    domain = f" of domain {node.domain!r}" if node.domain else ""
    raise ModelError(
        f"{describe(node)}{domain}: {reason.text}. {reason.remedy}, or cut the model before it."
    )


def _check_node(node: onnx.NodeProto) -> None:
    if max(len(node.input), len(node.output)) > MAX_NODE_VALUES:
        raise ModelError(
            f"{describe(node)}: more than {MAX_NODE_VALUES} inputs or outputs. Split the node."
        )
    seen: set[str] = set()
    for attribute in node.attribute:
        if attribute.name in seen:
            raise ModelError(
                f"{describe(node)}: attribute {attribute.name!r} is given twice. "
                "Export the model again."
            )
        seen.add(attribute.name)
        count = max(len(attribute.ints), len(attribute.floats), len(attribute.strings))
        if count > MAX_ATTRIBUTE_VALUES:
            raise ModelError(
                f"{describe(node)}: attribute {attribute.name!r} has {count} values. "
                f"At most {MAX_ATTRIBUTE_VALUES} are allowed. Use an initializer."
            )


def _check_values(graph: onnx.GraphProto, where: str, outer: tuple[Set[str], ...]) -> None:
    """Every value that is read is made once.

    ``outer`` has the values of the graphs around a sub-graph, and ``where`` starts its messages.
    """
    if graph.sparse_initializer:
        raise ModelError(
            f"{where}sparse initializers are not supported. Store the weights densely."
        )
    defined: set[str] = set()
    for kind, names in (
        ("input", [i.name for i in graph.input]),
        ("initializer", [i.name for i in graph.initializer]),
    ):
        for name, count in Counter(names).items():
            if not name or count > 1:
                raise ModelError(
                    f"{where}{kind} name {name!r} is {'given twice' if name else 'empty'}. "
                    "Each must have a name of its own. Export the model again."
                )
        defined.update(names)
    for node in graph.node:
        for name in filter(None, node.output):
            if name in defined:
                raise ModelError(
                    f"{where}{describe(node)}: value {name!r} is already made elsewhere. "
                    "Each must be made once. Export the model again."
                )
            defined.add(name)
    known = (defined, *outer)
    made = ((f"{describe(node)}: input", name) for node in graph.node for name in node.input)
    for what, name in chain(made, (("output", output.name) for output in graph.output)):
        if (name or what == "output") and not any(name in names for names in known):
            raise ModelError(
                f"{where}{what} {name!r} is made by no node, input or initializer. "
                "Export the model again."
            )
    for node in graph.node:
        for inner in subgraphs(node):
            _check_values(inner, f"{where}{describe(node)}: sub-graph {inner.name!r}: ", known)


def in_execution_order(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes with every node after the nodes whose values it reads.

    Nodes keep their places as far as possible: a list that is in order stays as it is. Raises
    ``ModelError`` if a value depends on itself.
    """
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    operands = [[name for name in reads(node) if name in producers] for node in graph.node]
    ordered: list[onnx.NodeProto] = []
    started: set[int] = set()
    finished: set[int] = set()
    for first in range(len(graph.node)):
        pending = [first]
        while pending:
            index = pending[-1]
            if index in finished:
                pending.pop()
                continue
            node = graph.node[index]
            needed = [producers[name] for name in operands[index]]
            waiting = [i for i in needed if i not in finished]
            if not waiting:
                ordered.append(node)
                finished.add(pending.pop())
                continue
            if index in started:
                value = next(n for n in operands[index] if producers[n] in waiting)
                raise ModelError(
                    f"{describe(node)}: its input {value!r} depends on its own output, so the "
                    "graph is cyclic. Expected a graph without cycles. Export the model again"
                )
            started.add(index)
            pending += reversed(waiting)
    return ordered


def run_checker(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    """Run ``onnx.checker`` on the model without its weights, with its nodes in order."""
    import onnx

    skeleton = onnx.ModelProto()
    skeleton.ir_version = model.ir_version
    skeleton.opset_import.extend(model.opset_import)
    graph = skeleton.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(nodes)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    for value in [*graph.input, *graph.output]:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            # legal in a model whose shapes are inferred, but the checker wants the field
            value.type.tensor_type.shape.SetInParent()
    inputs = {i.name for i in model.graph.input}
    # tensors are checked when they are decoded; as inputs, large weights are not copied
    for tensor in model.graph.initializer:
        if tensor.name not in inputs:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    _mark_foreign(skeleton)
    for node in graph.node:
        for inner in subgraphs(node):
            _sort(inner)
    try:
        onnx.checker.check_model(skeleton)
    except Exception as error:
        text = re.sub(r"\s+", " ", str(error)).strip(" .")
        raise ModelError(f"the ONNX checker refuses the model: {text}. Export it again.") from None


def _mark_foreign(model: onnx.ModelProto) -> None:
    """Name the operator set of onnxruntime's operators that pass for standard ones, in place."""
    import onnx

    opset = next(s.version for s in model.opset_import if s.domain in ("", "ai.onnx"))
    for node in all_nodes(model.graph):
        if own_domain(node.domain, node.op_type, opset) == MICROSOFT:
            node.domain = MICROSOFT
            if MICROSOFT not in {imported.domain for imported in model.opset_import}:
                model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))


def _sort(graph: onnx.GraphProto) -> None:
    """Put the nodes of a sub-graph and of those inside it in execution order, in place."""
    ordered = in_execution_order(graph)
    if ordered != list(graph.node):
        copies = [type(node).FromString(node.SerializeToString()) for node in ordered]
        del graph.node[:]
        graph.node.extend(copies)
    for node in graph.node:
        for inner in subgraphs(node):
            _sort(inner)
