"""Moves roundings next to the operators that compute, so that regions stay INT8.

Operators that move elements, or select the maximum, have the same result on integers. Therefore
``dequantize`` moves after such operators and ``quantize`` moves before them, until both are
adjacent. A pair with equal parameters is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from tvmconv.graph.blockable import adds_zeros
from tvmconv.graph.ir import ARITHMETIC, Graph, Node, Value, constant, make_node
from tvmconv.graph.quantized.scales import FLIP, Linear, LinearNodes, known_integers, linear_of
from tvmconv.graph.rewrite.activations import limits_of
from tvmconv.graph.scalars import scalar_expression

_MOVES = (
    "reshape",
    "permute_dims",
    "nn.max_pool2d",
    "concat",
    "split",
    "strided_slice",
    "nn.pad",
    "image.resize2d",
    "channel_shuffle",
    "depth_to_space",
)
_HIGHEST_BIT = 128


def fold_dequantized(graph: Graph, keep: Callable[[Value, list[Node]], bool]) -> None:
    """Compute dequantized constants in place, except constants to ``keep``.

    ``keep`` is called with a dequantized value and its readers.
    """
    users = graph.users()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        known = known_integers(node.output) if node.op == "dequantize" else None
        if known is None or keep(node.output, users.get(node.output, [])):
            return [node]
        mapping[node.output] = constant(known.values(), node.layer, "float32")
        return []

    graph.forward(visit)


def move_roundings(graph: Graph, dtype: str) -> None:
    """Convert INT8 regions to one type and bring roundings together, in place.

    Activations of the graph must be canonical. ``dtype`` is the 8-bit type of the machine's
    kernels.
    """
    nodes = LinearNodes()
    _unify(graph, dtype, nodes)
    # a change may enable another one
    for _ in range(2):
        _raise_quantize(graph, nodes)
        graph.remove_dead()
        _sink_dequantize(graph, nodes)
        graph.remove_dead()
        _round_once(graph, nodes)
        graph.remove_dead()


def dequantize_per_reader(graph: Graph) -> None:
    """Give each element-wise reader its own ``dequantize``, in place.

    Each pair becomes one function that reads INT8. With one ``dequantize`` for several readers, an
    FP32 tensor would be written.
    """
    users, nodes = graph.users(), LinearNodes()

    def visit(node: Node, _mapping: dict[Value, Value]) -> list[Node]:
        made: list[Node] = []
        for value in dict.fromkeys(node.inputs) if _is_elementwise(node) else ():
            linear = linear_of(value.producer, "dequantize")
            if linear is None or value.producer is None or len(users[value]) < 2:
                continue
            made.append(nodes.dequantize(value.producer.args[0], linear, value.producer.layer))
            node.replace_input(value, made[-1].output)
        return [*made, node]

    graph.forward(visit)


def _is_elementwise(node: Node) -> bool:
    return node.op == "quantize" or node.op in ARITHMETIC or scalar_expression(node) is not None


def is_move(node: Node) -> bool:
    """Whether a node's result holds elements of its operands, or their maxima.

    The caller checks the number of a padding.
    """
    if node.op not in _MOVES or any(value.shape is None for value in node.outputs):
        return False
    if node.op == "image.resize2d":
        return bool(node.attrs["method"] == "nearest_neighbor")
    if node.op == "nn.pad":
        return node.attrs.get("pad_mode", "constant") == "constant"
    if node.op == "nn.max_pool2d":
        return not node.attrs["ceil_mode"]
    # zeros that it adds are other integers where the zero point is not 0
    return node.op != "depth_to_space" or not adds_zeros(node)


def _scatters(node: Node) -> bool:
    """Whether a move does not compare elements, and does not drop any."""
    if not is_move(node) or node.op in ("nn.max_pool2d", "nn.pad") or len(node.outputs) != 1:
        return False
    # a depth-to-space drops only channels that pad a block
    grows = sum(prod(v.dims) for v in data_of(node)) <= prod(node.output.dims)
    return grows or node.op == "depth_to_space"


def data_of(node: Node) -> list[Value]:
    """The tensors that a move moves."""
    first = node.args[0]
    return list(first) if isinstance(first, list) else [first]


def _moved(node: Node, sources: Mapping[Value, Value], linear: Linear | None, dtype: str) -> Node:
    """The same move of other tensors; the number of a padding is rounded."""
    copy = Node(node.op, list(node.args), [], dict(node.attrs), node.call, node.layer)
    for old in dict.fromkeys(data_of(node)):
        copy.replace_input(old, sources[old])
    copy.outputs = [Value(v.shape, dtype, v.name, None, copy) for v in node.outputs]
    if node.op == "nn.pad" and linear is not None:
        number = np.float32(node.attrs.get("pad_value") or 0.0)
        copy.attrs["pad_value"] = float(linear.quantized(number))
        copy.call = None
    return copy


def _raise_quantize(graph: Graph, nodes: LinearNodes) -> None:
    """``quantize(move(x))`` -> ``move(quantize(x))``, if the move has no other reader."""
    counts = graph.use_counts()

    def raised(value: Value, linear: Linear, made: list[Node]) -> Value:
        if value.data is not None:
            return constant(linear.quantized(value.data))
        move = value.producer
        if move is None or not is_move(move) or len(move.outputs) != 1 or counts[value] != 1:
            layer = move.layer if move is not None else ""
            made.append(nodes.quantize(value, linear, layer))
        else:
            sources = {v: raised(v, linear, made) for v in dict.fromkeys(data_of(move))}
            made.append(_moved(move, sources, linear, linear.dtype))
        return made[-1].output

    def rescaled(node: Node, linear: Linear) -> list[Node]:
        """The move of another rounding, by this one: ``Q(D(move(q)))`` -> ``move(Q(D(q)))``."""
        inner = node.args[0].producer
        first = linear_of(inner, "dequantize")
        # only now, as the first argument of other nodes may be a function
        move = inner.args[0].producer if first is not None else None
        if first is None or move is None or counts[node.args[0]] != 1 or not _scatters(move):
            return []
        origins = {v: v.producer for v in data_of(move)}
        if counts[move.output] != 1 or any(
            counts[v] != 1 or linear_of(p, "quantize") != first for v, p in origins.items()
        ):
            return []
        made: list[Node] = []
        sources = {}
        for value in origins:
            made.append(nodes.dequantize(value, first, inner.layer))
            made.append(nodes.quantize(made[-1].output, linear, node.layer))
            sources[value] = made[-1].output
        return [*made, _moved(move, sources, None, linear.dtype)]

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        linear = linear_of(node, "quantize")
        move = node.args[0].producer if linear is not None else None
        if linear is None or move is None:
            return [node]
        made: list[Node] = []
        if is_move(move):
            mapping[node.output] = raised(node.args[0], linear, made)
            return made
        made = rescaled(node, linear)
        if made:
            mapping[node.output] = made[-1].output
        return made or [node]

    graph.forward(visit)


def _sink_dequantize(graph: Graph, nodes: LinearNodes) -> None:
    """``move(dequantize(x))`` -> ``dequantize(move(x))``; inverse pairs are removed."""

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        linear = linear_of(node, "quantize")
        if linear is not None:
            before = node.args[0].producer
            if before is not None and linear_of(before, "dequantize") == linear:
                mapping[node.output] = before.args[0]
                return []
            return [node]
        if not is_move(node):
            return [node]
        made = [value.producer for value in data_of(node)]
        linears = {linear_of(each, "dequantize") for each in made}
        shared = next(iter(linears))
        if len(linears) != 1 or shared is None or not _pads_exactly(node, shared):
            return [node]
        integers = {
            value: each.args[0]
            for value, each in zip(data_of(node), made, strict=True)
            if each is not None
        }
        moved = _moved(node, integers, shared, shared.dtype)
        numbers = [nodes.dequantize(value, shared, node.layer) for value in moved.outputs]
        mapping.update(zip(node.outputs, (n.output for n in numbers), strict=True))
        return [moved, *numbers]

    graph.forward(visit)


def _pads_exactly(node: Node, linear: Linear) -> bool:
    if node.op != "nn.pad":
        return True
    number = np.float32(node.attrs.get("pad_value") or 0.0)
    return linear.number(int(linear.quantized(number))) == number


def _round_once(graph: Graph, nodes: LinearNodes) -> None:
    """``Q(clip(D(Q(x))))`` -> ``Q(clip(x))`` for equal parameters: limits and roundings commute."""
    counts = graph.use_counts()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        linear = linear_of(node, "quantize")
        bound = node.args[0].producer if linear is not None else None
        if linear is None or bound is None or limits_of(bound) is None:
            return [node]
        inner = bound.args[0].producer
        first = inner.args[0].producer if linear_of(inner, "dequantize") == linear else None
        if first is None or linear_of(first, "quantize") != linear:
            return [node]
        if any(counts[value] != 1 for value in (bound.output, bound.args[0], first.output)):
            return [node]
        source = first.args[0]
        copy = make_node(
            bound.op, [source], source.dims, layer=bound.layer, attrs=dict(bound.attrs)
        )
        rounded = nodes.quantize(copy.output, linear, node.layer)
        mapping[node.output] = rounded.output
        return [copy, rounded]

    graph.forward(visit)


def _unify(graph: Graph, dtype: str, nodes: LinearNodes) -> None:
    """Give INT8 tensors between roundings one type; other readers and outputs get a conversion."""
    other = "int8" if dtype == "uint8" else "uint8"
    # values in the other type, and back in their own type
    twins: dict[Value, Value] = {}
    backs: dict[Value, Value] = {}
    # values that are no longer computed in their own type
    lost: set[Value] = set()

    def twin(value: Value, made: list[Node]) -> Value:
        if value.data is not None:
            return constant((value.data.view(np.uint8) ^ _HIGHEST_BIT).view(dtype))
        if value not in twins:
            made.append(make_node(FLIP, [value], value.dims, dtype=dtype))
            twins[value] = made[-1].output
        return twins[value]

    def back(value: Value, made: list[Node]) -> Value:
        if value not in backs:
            made.append(make_node(FLIP, [twins[value]], value.dims, dtype=other))
            backs[value] = made[-1].output
        return backs[value]

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        linear, made = linear_of(node), list[Node]()
        if linear is not None:
            source, meant = node.args[0], linear.in_type(dtype)
            if node.op == "dequantize":
                source = twin(source, made) if source.dtype == other else source
                made.append(nodes.dequantize(source, meant, node.layer))
                mapping[node.output] = made[-1].output
            else:
                made.append(nodes.quantize(source, meant, node.layer))
                if linear.dtype == other:
                    twins[node.output] = made[-1].output
                    lost.add(node.output)
                else:
                    mapping[node.output] = made[-1].output
            return made
        if is_move(node) and any(value in twins for value in data_of(node)):
            sources = {value: twin(value, made) for value in data_of(node)}
            copy = _moved(node, sources, None, dtype)
            if node.op == "nn.pad":
                old = int(node.attrs.get("pad_value") or 0)
                copy.attrs["pad_value"] = float(old + (128 if dtype == "uint8" else -128))
                copy.call = None
            twins.update(zip(node.outputs, copy.outputs, strict=True))
            lost.update(node.outputs)
            return [*made, copy]
        for value in node.inputs:
            if value in lost:
                node.replace_input(value, back(value, made))
        return [*made, node]

    graph.forward(visit)
    last: list[Node] = []
    graph.outputs = [back(value, last) if value in lost else value for value in graph.outputs]
    graph.nodes += last
