"""Computes models of short element types in longer ones.

float16, bfloat16, the types of 8 and fewer bits and small integers are storage types here: inputs,
outputs and constants have them. Values between operators are float32, or 8-bit integers. No sum is
made in float16, no square overflows, and operators fuse as in a float32 model.
``docs/reference/numerics.md`` states the rule for users.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmconv.core.stored_types import SMALL_INTEGERS, STORED, integer_limits, wide_type
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.operators import CONTROL
from tvmconv.frontend.quantize_linear import LINEAR_OPSET, block_size, channel_axis
from tvmconv.frontend.tensors import CODES

_WIDE = {name: wide_type(name) for name in ("float16", *STORED)}
_LONG = ("float16", "bfloat16")
_CASTS = ("Cast", "CastLike")
_PICKS = ("Gather", "GatherElements", "GatherND")
_MOVES = frozenset((
    "Concat", "DepthToSpace", "Expand", "Flatten", "Identity", "Reshape", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip


def widen_stored_types(graph: OnnxGraph) -> None:
    """Give values of storage types their wide type, in place.

    These values keep their type, and a Cast node connects them with the others:

    1. inputs and outputs of the graph;
    2. operands and results of operators that run nested graphs;
    3. the result of a Cast to float16 or bfloat16 that another Cast reads: such a pair asks for
       rounding;
    4. the result of a Cast to a shorter type;
    5. data and scale of a QuantizeLinear whose scale is float16, since it divides in that type;
    6. float16 values that operators only move from inputs to outputs of the graph.
    """
    if any(info.dtype in _WIDE for info in graph.types.values()):
        _Widening(graph).run()


class _Widening:
    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._nodes: list[OnnxNode] = []
        self._stored = {n: info.dtype for n, info in graph.types.items() if info.dtype in _WIDE}
        self._cast_again = {node.inputs[0] for node in graph.nodes if node.op in _CASTS}
        kept = {info.name for info in (*graph.inputs, *graph.outputs)}
        for node in graph.nodes:
            if node.op in CONTROL:
                kept.update(node.inputs, node.outputs)
        scales = {node.inputs[1] for node in graph.nodes if node.op == "QuantizeLinear"}
        kept.update(name for name in scales if self._stored.get(name) == "float16")
        self._kept = kept & set(self._stored)
        moves = _moves(graph, self._kept, self._stored)
        self._kept.update(name for node in moves for name in node.outputs)
        # nodes by identity: they are not hashable
        self._moves = set(map(id, moves))
        # wide form of a kept value; other values keep their names
        self._wide: dict[str, str] = {}

    def run(self) -> None:
        graph = self._graph
        for name in set(self._stored) - self._kept:
            self._set_type(name, name, _WIDE[self._stored[name]])
            if name in graph.constants:
                graph.constants[name] = graph.constants[name].astype(_WIDE[self._stored[name]])
        for node in graph.nodes:
            self._rewrite(node)
        graph.nodes = self._nodes

    def _rewrite(self, node: OnnxNode) -> None:
        if node.op in CONTROL:
            # nested graphs have inputs and outputs of storage types, too
            self._nodes.append(node)
            return
        if node.op == "QuantizeLinear" and self._stored.get(node.inputs[1]) == "float16":
            data = node.inputs[0]
            if data in self._stored and data not in self._kept:
                data = self._cast(data, self._fresh(data, "float16"), "float16")
            rest = (self._widened(name) if i > 1 else name for i, name in enumerate(node.inputs))
            _, scale, *zero_point = rest
            self._append(replace(node, inputs=(data, scale, *zero_point)))
            return
        source = self._stored.get(node.inputs[0], "") if node.inputs else ""
        if node.op == "DequantizeLinear" and STORED.get(source) and source not in SMALL_INTEGERS:
            self._dequantize(node)
            return
        if node.op in _PICKS and source == "float16" and node.inputs[0] in self._kept:
            # elements that are not picked are not cast
            (output,) = node.outputs
            picked = output if output in self._kept else self._fresh(output, source)
            self._nodes.append(replace(node, outputs=(picked,)))
            if picked != output:
                self._cast(picked, output, _WIDE[source])
            return
        if id(node) in self._moves:
            self._nodes.append(node)
            return
        node = self._retyped(node)
        self._append(replace(node, inputs=tuple(map(self._widened, node.inputs))))

    def _append(self, node: OnnxNode) -> None:
        """Add a node whose inputs are wide; its results become so."""
        made = [name for name in node.outputs if name in self._kept]
        for name in made:
            self._wide[name] = self._fresh(name, _WIDE[self._stored[name]])
        outputs = tuple(self._wide.get(name, name) for name in node.outputs)
        target = self._stored.get(node.outputs[0], "") if node.outputs else ""
        rounds = target not in _LONG or node.outputs[0] in self._cast_again
        if node.op == "Cast" and target and rounds:
            rounded = node.outputs[0] if made else self._fresh(outputs[0], target)
            self._cast(node.inputs[0], rounded, target, node)
            self._cast(rounded, outputs[0], _WIDE[target])
            return
        if node.op == "QuantizeLinear" and target in STORED:
            self._quantize(node, outputs[0], target)
        else:
            self._nodes.append(replace(node, outputs=outputs))
        for name in made:
            self._cast(self._wide[name], name, self._stored[name])

    def _quantize(self, node: OnnxNode, output: str, target: str) -> None:
        """A QuantizeLinear to a storage type, whose wide result is ``output``."""
        shape = self._graph.shape(output)
        if target in SMALL_INTEGERS:
            whole = self._value(f"{output}.8bit", shape, _WIDE[target])
            attrs = {**node.attrs, "output_dtype": CODES[_WIDE[target]]}
            if node.input(2):
                del attrs["output_dtype"]
            self._nodes.append(replace(node, outputs=(whole,), attrs=attrs))
            limits = integer_limits(target)
            bounds = [self._number(f"{output}.{b}", b, _WIDE[target]) for b in limits]
            self._node("Clip", (whole, *bounds), output)
            return
        quotient = self._value(f"{output}.quotient", shape, "float32")
        data = self._as(node.inputs[0], "float32")
        self._node("Div", (data, self._spread(node, 1, "float32")), quotient, node.name)
        if node.input(2):
            moved = self._value(f"{output}.moved", shape, "float32")
            self._node("Add", (quotient, self._spread(node, 2, "float32")), moved)
            quotient = moved
        rounded = self._value(f"{output}.rounded", shape, target)
        self._cast(quotient, rounded, target, node)
        self._cast(rounded, output, "float32")

    def _dequantize(self, node: OnnxNode) -> None:
        """A DequantizeLinear of floating-point numbers: (x - zero point) * scale."""
        inputs = tuple(map(self._widened, node.inputs))
        node = replace(node, inputs=inputs)
        shape, (output,) = self._graph.shape(inputs[0]), node.outputs
        data = inputs[0]
        if node.input(2):
            data = self._value(f"{output}.moved", shape, "float32")
            self._node("Sub", (inputs[0], self._spread(node, 2, "float32")), data)
        made = output if output in self._kept else ""
        wide = self._fresh(output, "float32") if made else output
        self._node("Mul", (data, self._spread(node, 1, "float32")), wide, node.name)
        if made:
            self._wide[output] = wide
            self._cast(wide, output, self._stored[output])

    def _spread(self, node: OnnxNode, place: int, dtype: str) -> str:
        """A scale or zero point in a shape that broadcasts to the data."""
        name, shape = node.inputs[place], self._graph.shape(node.inputs[0])
        given = self._graph.shape(name)
        axis = channel_axis(node, shape, given)
        if block_size(node):
            raise node.error(
                "blocks of 8-bit or shorter floating-point numbers are not supported",
                "use one scale for each channel",
            )
        name = self._as(name, dtype)
        column = () if axis is None else (-1, *[1] * (len(shape) - axis - 1))
        sizes = tuple(given[0] if n < 0 else n for n in column)
        if sizes == given:
            return name
        target = self._graph.add_constant(f"{name}.shape", np.asarray(column, np.int64))
        column_name = self._value(f"{name}.column", sizes, dtype)
        self._node("Reshape", (name, target), column_name)
        return column_name

    def _as(self, name: str, dtype: str) -> str:
        """A value in an element type."""
        if self._graph.types[name].dtype == dtype:
            return name
        return self._cast(name, self._fresh(name, dtype), dtype)

    def _retyped(self, node: OnnxNode) -> OnnxNode:
        """The node with the wide type where an attribute or operand names a storage type."""
        target = self._stored.get(node.outputs[0], "") if node.outputs else ""
        if node.op in _CASTS and target:
            attrs = {name: v for name, v in node.attrs.items() if name != "to"}
            attrs["to"] = CODES[_WIDE[target]]
            return replace(node, op="Cast", inputs=node.inputs[:1], attrs=attrs)
        if node.op == "DequantizeLinear" and target and "output_dtype" in node.attrs:
            return replace(node, attrs={**node.attrs, "output_dtype": CODES[_WIDE[target]]})
        return node

    def _widened(self, name: str) -> str:
        """The wide form of an operand."""
        if name not in self._kept:
            return name
        if name not in self._wide:
            wide = _WIDE[self._stored[name]]
            known = self._graph.constants.get(name)
            if known is None:
                self._wide[name] = self._cast(name, self._fresh(name, wide), wide)
            else:
                self._wide[name] = self._graph.add_constant(f"{name}.{wide}", known.astype(wide))
        return self._wide[name]

    def _cast(self, source: str, target: str, dtype: str, like: OnnxNode | None = None) -> str:
        """Append a Cast node that rounds as ``like`` says; returns its result's name."""
        attrs = {"to": CODES[dtype]}
        if like is not None:
            attrs |= {n: v for n, v in like.attrs.items() if n in ("saturate", "round_mode")}
        self._nodes.append(OnnxNode(target, "Cast", (source,), (target,), attrs, self._graph.opset))
        return target

    def _node(self, op: str, inputs: tuple[str, ...], output: str, name: str = "") -> None:
        opset = max(self._graph.opset, LINEAR_OPSET)
        self._nodes.append(OnnxNode(name or output, op, inputs, (output,), {}, opset))

    def _number(self, name: str, value: int, dtype: str) -> str:
        return self._graph.add_constant(name, np.asarray(value, dtype))

    def _fresh(self, name: str, dtype: str) -> str:
        """A new value with the shape of another one."""
        return self._value(f"{name}.{dtype}", self._graph.shape(name), dtype)

    def _value(self, name: str, shape: tuple[int, ...], dtype: str) -> str:
        fresh = self._graph.unused_name(name)
        self._graph.types[fresh] = TensorInfo(fresh, shape, dtype)
        return fresh

    def _set_type(self, name: str, like: str, dtype: str) -> None:
        self._graph.types[name] = TensorInfo(name, self._graph.shape(like), dtype)


def _moves(graph: OnnxGraph, kept: set[str], stored: dict[str, str]) -> list[OnnxNode]:
    """Nodes that move float16 values, all on ways from inputs to outputs of the graph."""
    found, count = [node for node in graph.nodes if node.op in _MOVES], -1
    while count != len(found):
        count = len(found)
        identities = set(map(id, found))
        halves = kept.union(name for node in found for name in node.outputs)
        halves = {name for name in halves if stored.get(name) == "float16"}
        others = {n for node in graph.nodes if id(node) not in identities for n in node.inputs}
        ends = (halves - others) | kept
        found = [node for node in found if _is_move(node, stored, halves, ends)]
    return found


def _is_move(node: OnnxNode, stored: dict[str, str], halves: set[str], ends: set[str]) -> bool:
    """Whether a node reads float16 values only, and no operator reads its results wide."""
    read = [name for name in node.inputs if name in stored]
    return bool(read) and halves.issuperset(read) and ends.issuperset(node.outputs)
