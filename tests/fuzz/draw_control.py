"""Draws If, Loop and Scan around chains of element-wise operators, one inside another."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.draft import Draft, Undrawable, Value

_UNARY = ("Sigmoid", "Tanh", "Abs", "Neg", "Identity", "Relu")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_DEEPEST = 2


class _Body:
    """The nodes of a sub-graph, whose values have one shape."""

    def __init__(self, d: Draft, shape: tuple[int, ...], names: list[str], depth: int) -> None:
        self.d, self.shape, self.names, self.depth = d, shape, list(names), depth
        self.nodes: list[Any] = []

    def fill(self) -> _Body:
        """Append a few nodes."""
        for _ in range(self.d.pick((1, 2, 3))):
            kind = self.d.pick(("one", "one", "two", "two", "control"))
            if kind == "control" and self.depth < _DEEPEST:
                inner = self.d.pick((branch, loop, scan))
                nodes, made = inner(self.d, self.shape, self.names, self.depth + 1)
                self.nodes += nodes
                self.names += made[:1]
                continue
            op = self.d.pick(_UNARY if kind == "one" else _BINARY)
            self.apply(op, *(self.d.pick(self.names) for _ in range(1 if kind == "one" else 2)))
        return self

    def apply(self, op: str, *names: str, **attributes: Any) -> str:
        """Append a node; returns its result."""
        result = self.d.name("v")
        self.nodes.append(helper.make_node(op, names, [result], **attributes))
        self.names.append(result)
        return result

    def graph(self, inputs: list[Any], results: int, first: list[Any] | None = None) -> Any:
        """The sub-graph; ``first`` are results of other types."""
        names = [self.apply("Identity", self.d.pick(self.names)) for _ in range(results)]
        outputs = [_float(name, self.shape) for name in names]
        return helper.make_graph(self.nodes, "body", inputs, [*(first or []), *outputs])


def _float(name: str, shape: tuple[int, ...]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _constant(d: Draft, value: Any) -> tuple[Any, str]:
    name = d.name("c")
    tensor = helper.make_tensor(
        "", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.reshape(-1)
    )
    return helper.make_node("Constant", [], [name], value=tensor), name


def _condition(d: Draft, names: list[str]) -> tuple[list[Any], str]:
    """A constant, or whether a sum is below a number."""
    if d.chance(0.3):
        node, name = _constant(d, np.asarray(d.chance(0.5)))
        return [node], name
    limit, bound = _constant(d, np.asarray(d.pick((-1, 0, 0.5, 3)), np.float32))
    total, name = d.name("v"), d.name("c")
    return [
        limit,
        helper.make_node("ReduceSum", [d.pick(names)], [total], keepdims=0),
        helper.make_node("Less", [total, bound], [name]),
    ], name


def branch(
    d: Draft, shape: tuple[int, ...], names: list[str], depth: int
) -> tuple[list[Any], list[str]]:
    """An If with one or two results."""
    nodes, condition = _condition(d, names)
    count = d.pick((1, 2))
    graphs = {
        f"{side}_branch": _Body(d, shape, names, depth).fill().graph([], count)
        for side in ("then", "else")
    }
    results = [d.name("v") for _ in range(count)]
    return [*nodes, helper.make_node("If", [condition], results, d.name("If"), **graphs)], results


def loop(
    d: Draft, shape: tuple[int, ...], names: list[str], depth: int
) -> tuple[list[Any], list[str]]:
    """A Loop of up to five trips, which may end early; its stacked result is summed."""
    trips = d.pick((0, 1, 2, 3, 5))
    ends = d.chance(0.3)
    stacks = trips > 0 and not ends and d.chance(0.5)
    count, most = _constant(d, np.asarray(trips, np.int64))
    number, going = d.name("i"), d.name("c")
    states = [d.name("s") for _ in range(d.pick((1, 2)))]
    body = _Body(d, shape, [*names, *states], depth)
    if d.chance(0.5):
        cast = body.apply("Cast", number, to=TensorProto.FLOAT)
        body.names.remove(cast)
        body.apply("Add", states[0], cast)
    body.fill()
    goes = going
    if ends:
        nodes, goes = _condition(d, body.names)
        body.nodes += nodes
    result = d.name("c")
    body.nodes.append(helper.make_node("Identity", [goes], [result]))
    scalars = [(number, TensorProto.INT64), (going, TensorProto.BOOL)]
    inputs = [helper.make_tensor_value_info(name, kind, ()) for name, kind in scalars]
    inputs += [_float(name, shape) for name in states]
    first = [helper.make_tensor_value_info(result, TensorProto.BOOL, ())]
    graph = body.graph(inputs, len(states) + stacks, first)
    before, guard = _condition(d, names) if not stacks and d.chance(0.3) else ([], "")
    initial = [d.pick(names) for _ in states]
    results = [d.name("v") for _ in range(len(states) + stacks)]
    node = helper.make_node("Loop", [most, guard, *initial], results, d.name("Loop"), body=graph)
    return [*before, count, node, *_summed(d, results, len(states))], results[: len(states)]


def scan(
    d: Draft, shape: tuple[int, ...], names: list[str], depth: int
) -> tuple[list[Any], list[str]]:
    """A Scan over constants along any axis, in both directions."""
    rank, length = len(shape) + 1, d.pick((1, 2, 4))
    state, slices = d.name("s"), [d.name("x") for _ in range(d.pick((1, 2)))]
    axes = [d.generator.randrange(rank) for _ in slices]
    nodes, whole = [], []
    for axis in axes:
        numbers = d.numbers.standard_normal((*shape[:axis], length, *shape[axis:]))
        node, name = _constant(d, numbers.astype(np.float32))
        nodes.append(node)
        whole.append(name)
    body = _Body(d, shape, [*names, state, *slices], depth).fill()
    graph = body.graph([_float(name, shape) for name in (state, *slices)], 2)
    results = [d.name("v") for _ in range(2)]
    node = helper.make_node(
        "Scan", [d.pick(names), *whole], results, d.name("Scan"), body=graph,
        num_scan_inputs=len(slices),
        scan_input_axes=[axis - rank if d.chance(0.3) and d.opset > 10 else axis for axis in axes],
        scan_input_directions=[d.pick((0, 1)) for _ in slices],
        scan_output_directions=[d.pick((0, 1))],
    )  # fmt: skip
    return [*nodes, node, *_summed(d, results, 1)], results[:1]


def _summed(d: Draft, results: list[str], states: int) -> list[Any]:
    """Nodes that read the stacked results, if there are any."""
    return [
        helper.make_node("ReduceMax", [name], [d.name("v")], keepdims=0)
        for name in results[states:]
    ]


def controlled(d: Draft) -> None:
    """One of the three, of a float value that exists."""
    # ReduceSum has axes as an attribute before, Scan a batch axis
    if d.opset < 9:
        raise Undrawable("no Scan")
    x = d.value(("float32",), 0, 3)
    names = [x.name, *(v.name for v in d.values if (v.shape, v.dtype) == (x.shape, x.dtype))]
    nodes, results = d.pick((branch, loop, scan))(d, x.shape, names, 0)
    d.place(nodes, [Value(name, x.shape, "float32") for name in results])


STEPS = (controlled,)
