"""Computes float16 models in float32.

float16 is a storage type here: inputs, outputs and constants have it. Values between operators
are float32. No sum is made in float16, no square overflows, and operators fuse as in a float32
model. ``docs/reference/numerics.md`` states the rule for users.
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.operators import CONTROL

_HALF, _WIDE = "float16", "float32"
_CODES = {_HALF: onnx.TensorProto.FLOAT16, _WIDE: onnx.TensorProto.FLOAT}
_CASTS = ("Cast", "CastLike")


def widen_float16(graph: OnnxGraph) -> None:
    """Give float16 values the type float32, in place.

    These values stay float16, and a Cast node connects them with the others:

    1. inputs and outputs of the graph;
    2. operands and results of operators that run nested graphs;
    3. the result of a Cast to float16 that another Cast reads: such a pair asks for rounding;
    4. data and scale of a QuantizeLinear whose scale is float16, since it divides in that type.
    """
    if any(info.dtype == _HALF for info in graph.types.values()):
        _Widening(graph).run()


class _Widening:
    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._nodes: list[OnnxNode] = []
        self._half = {name for name, info in graph.types.items() if info.dtype == _HALF}
        self._cast_again = {node.inputs[0] for node in graph.nodes if node.op in _CASTS}
        kept = {info.name for info in (*graph.inputs, *graph.outputs)}
        for node in graph.nodes:
            if node.op in CONTROL:
                kept.update(node.inputs, node.outputs)
        kept.update(node.inputs[1] for node in graph.nodes if node.op == "QuantizeLinear")
        self._kept = kept & self._half
        # float32 form of a kept value; other values keep their names
        self._wide: dict[str, str] = {}

    def run(self) -> None:
        graph = self._graph
        for name in self._half - self._kept:
            self._set_type(name, name, _WIDE)
            if name in graph.constants:
                graph.constants[name] = graph.constants[name].astype(_WIDE)
        for node in graph.nodes:
            self._rewrite(node)
        graph.nodes = self._nodes

    def _rewrite(self, node: OnnxNode) -> None:
        if node.op == "QuantizeLinear" and node.inputs[1] in self._half:
            data = node.inputs[0]
            if data not in self._kept:
                data = self._cast(data, self._fresh(data, _HALF), _HALF)
            self._nodes.append(replace(node, inputs=(data, *node.inputs[1:])))
            return
        if node.op in CONTROL:
            # nested graphs have float16 inputs and outputs, too
            self._nodes.append(node)
            return
        node = self._retyped(node)
        node = replace(node, inputs=tuple(map(self._widened, node.inputs)))
        made = [name for name in node.outputs if name in self._kept]
        for name in made:
            self._wide[name] = self._fresh(name, _WIDE)
        outputs = tuple(self._wide.get(name, name) for name in node.outputs)
        if node.op == "Cast" and node.outputs[0] in self._half & self._cast_again:
            rounded = node.outputs[0] if made else self._fresh(outputs[0], _HALF)
            self._cast(node.inputs[0], rounded, _HALF)
            self._cast(rounded, outputs[0], _WIDE)
            return
        self._nodes.append(replace(node, outputs=outputs))
        for name in made:
            self._cast(self._wide[name], name, _HALF)

    def _retyped(self, node: OnnxNode) -> OnnxNode:
        """The node with float32 for each float16 that an attribute or operand names."""
        makes_half = bool(node.outputs) and node.outputs[0] in self._half
        if node.op in _CASTS and makes_half:
            return replace(node, op="Cast", inputs=node.inputs[:1], attrs={"to": _CODES[_WIDE]})
        if node.op == "DequantizeLinear" and makes_half and "output_dtype" in node.attrs:
            return replace(node, attrs={**node.attrs, "output_dtype": _CODES[_WIDE]})
        return node

    def _widened(self, name: str) -> str:
        """The float32 form of an operand."""
        if name not in self._kept:
            return name
        if name not in self._wide:
            known = self._graph.constants.get(name)
            if known is None:
                self._wide[name] = self._cast(name, self._fresh(name, _WIDE), _WIDE)
            else:
                self._wide[name] = self._graph.add_constant(f"{name}.{_WIDE}", known.astype(_WIDE))
        return self._wide[name]

    def _cast(self, source: str, target: str, dtype: str) -> str:
        """Append a Cast node; returns its result's name."""
        attrs = {"to": _CODES[dtype]}
        self._nodes.append(OnnxNode(target, "Cast", (source,), (target,), attrs, self._graph.opset))
        return target

    def _fresh(self, name: str, dtype: str) -> str:
        """A new value with the shape of another one."""
        fresh = self._graph.unused_name(f"{name}.{dtype}")
        self._set_type(fresh, name, dtype)
        return fresh

    def _set_type(self, name: str, like: str, dtype: str) -> None:
        self._graph.types[name] = TensorInfo(name, self._graph.shape(like), dtype)
