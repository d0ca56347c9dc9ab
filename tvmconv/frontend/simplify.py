"""Rewrites on the checked graph, before conversion to Relax."""

from __future__ import annotations

from dataclasses import replace

from tvmconv.frontend.affine import fold_affine
from tvmconv.frontend.fold import keeps_everything
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.idioms import merge_idioms
from tvmconv.frontend.widen import widen_stored_types


def simplify(graph: OnnxGraph) -> OnnxGraph:
    """Rewrite the graph in place and return it.

    Nested graphs first. Then:

    1. Values of short types become float32 or 8-bit integers: see :mod:`tvmconv.frontend.widen`.
    2. Identity, inference Dropout and casts to the same type are bypassed.
    3. Values that no output needs are dropped.
    4. A Gelu that exporters write as several operators becomes one operator.
    5. BatchNormalization and per-channel Mul/Add are folded into the convolution before them.
    """
    for nested in graph.nested():
        simplify(nested)
    widen_stored_types(graph)
    _bypass(graph)
    _drop_dead(graph)
    merge_idioms(graph)
    _drop_dead(graph)
    fold_affine(graph)
    _drop_dead(graph)
    return graph


def _does_nothing(graph: OnnxGraph, node: OnnxNode) -> bool:
    if node.op == "Identity":
        return True
    if node.op == "Cast":
        return graph.types[node.inputs[0]].dtype == graph.types[node.outputs[0]].dtype
    if node.op in ("Sum", "Max", "Min", "Mean", "Concat"):
        return len(node.inputs) == 1
    return node.op == "Dropout" and keeps_everything(node, graph.constants)


def _bypass(graph: OnnxGraph) -> None:
    """Let readers of an operator without effect read its input; graph outputs keep theirs."""
    outputs = set(graph.results())
    alias: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(alias.get(name, name) for name in node.inputs))
        if _does_nothing(graph, node):
            if node.outputs[0] not in outputs:
                alias[node.outputs[0]] = node.inputs[0]
                continue
            node = replace(
                node, op="Identity", inputs=node.inputs[:1], outputs=node.outputs[:1], attrs={}
            )
        kept.append(node)
    graph.nodes = kept


def _drop_dead(graph: OnnxGraph) -> None:
    needed = set(graph.results())
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(name for name in node.inputs if name)
            kept.append(node)
    graph.nodes = kept[::-1]
    made = {name for node in graph.nodes for name in node.outputs}
    made.update(info.name for info in graph.inputs)
    graph.constants = {name: a for name, a in graph.constants.items() if name in needed}
    graph.types = {
        name: t for name, t in graph.types.items() if name in made or name in graph.constants
    }
