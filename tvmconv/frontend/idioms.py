"""Recognizes Gelu, which exporters write as several operators.

It replaces the last operator of its pattern. Operators without readers are removed later. The graph
recognizes SiLU and HardSwish, see :mod:`tvmconv.graph.rewrite.activations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tvmconv.frontend.graph import OnnxGraph, OnnxNode


def merge_idioms(graph: OnnxGraph) -> None:
    """Rewrite the graph in place."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    finder = _Finder(graph, makers)
    for index, node in enumerate(graph.nodes):
        source = finder.gelu_input(node)
        if source is None or graph.types[source].dtype != "float32":
            continue
        if graph.shape(source) != graph.shape(node.outputs[0]):
            continue
        merged = replace(node, op="Gelu", inputs=(source,), attrs={})
        graph.nodes[index] = merged
        makers[node.outputs[0]] = merged


class _Finder:
    def __init__(self, graph: OnnxGraph, makers: dict[str, OnnxNode]) -> None:
        self._graph = graph
        self._makers = makers

    def gelu_input(self, node: OnnxNode) -> str | None:
        """x of the Gelu 0.5 * (x * (1 + erf(x / sqrt 2))) that a node completes, in any order."""
        for x, other in self._orders(node, "Mul"):
            if self._gelu_factor_of(other) == x:
                return x
        half = self._scaled(node, 0.5)
        if half is not None:
            for x, other in self._orders(self._makers.get(half), "Mul"):
                if self._erf_plus_one_of(other) == x:
                    return x
        for left, right in self._orders(node, "Mul"):
            maker = self._makers.get(left)
            source = self._scaled(maker, 0.5) if maker is not None else None
            if source is not None and self._erf_plus_one_of(right) == source:
                return source
        return None

    def _gelu_factor_of(self, name: str) -> str | None:
        maker = self._makers.get(name)
        inner = self._scaled(maker, 0.5) if maker is not None else None
        return self._erf_plus_one_of(inner) if inner else None

    def _erf_plus_one_of(self, name: str) -> str | None:
        maker = self._makers.get(name)
        for erf_name, one in self._orders(maker, "Add"):
            erf = self._makers.get(erf_name)
            if self._scalar(one) != 1.0 or erf is None or erf.op != "Erf":
                continue
            inner = self._makers.get(erf.inputs[0])
            if inner is not None:
                root = float(np.sqrt(2.0))
                return self._divided(inner, root) or self._scaled(inner, 1 / root)
        return None

    def _scaled(self, node: OnnxNode, factor: float) -> str | None:
        for x, constant in self._orders(node, "Mul"):
            value = self._scalar(constant)
            if value is not None and abs(value - factor) < 1e-6:
                return x
        return None

    def _divided(self, node: OnnxNode, divisor: float) -> str | None:
        if node.op == "Div":
            value = self._scalar(node.inputs[1])
            return node.inputs[0] if value is not None and abs(value - divisor) < 1e-6 else None
        return self._scaled(node, 1 / divisor)

    def _orders(self, node: OnnxNode | None, op: str) -> Iterator[tuple[str, str]]:
        """Both orders of a commutative operator's operands."""
        if node is not None and node.op == op and len(node.inputs) == 2:
            yield node.inputs[0], node.inputs[1]
            yield node.inputs[1], node.inputs[0]

    def _scalar(self, name: str) -> float | None:
        value = self._graph.constants.get(name)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def clip_bounds(graph: OnnxGraph, node: OnnxNode) -> tuple[float | None, float | None] | None:
    """Constant bounds of a Clip, ``None`` for an absent one; ``None`` where one is computed."""
    bounds: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        if node.opset < 11:
            value = node.attrs.get(name)
            bounds.append(None if value is None else float(value))
        elif not node.input(index):
            bounds.append(None)
        elif node.input(index) in graph.constants:
            bounds.append(float(graph.constants[node.input(index)].reshape(-1)[0]))
        else:
            return None
    return bounds[0], bounds[1]
