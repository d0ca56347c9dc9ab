"""Element-wise functions of one INT8 tensor as tables of 256 values.

A chain of element-wise operators between two roundings to INT8 (sigmoid, SiLU, hard swish, a
change of scale) has 256 results. The build compiles the FP32 chain and stores its results in the
table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmconv.graph.ir import Array, Graph, Node, Value, constant, make_node
from tvmconv.graph.quantized.scales import EIGHT_BITS, TABLE, linear_of
from tvmconv.graph.scalars import scalar_expression
from tvmconv.machines.gate import lacks
from tvmconv.machines.record import Machine
from tvmconv.operators.lookup import ENTRIES
from tvmconv.operators.quantise import dequantised, quantised
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": tirx.max,
    "minimum": tirx.min,
}
# longer chains are not replaced
_MOST_STEPS = 64
# steps and the machine's processor -> compiled code
_COMPILED: dict[Any, Any] = {}


def _called(code: Any, arguments: list[Array], dtype: str) -> Array:
    from tvmconv.tvm_api import runtime

    tensors = [runtime.tensor(array) for array in (*arguments, np.zeros(ENTRIES, dtype))]
    code["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


def tabulate(graph: Graph, machine: Machine) -> None:
    """Replace roundings of functions of one 8-bit tensor by :data:`TABLE` nodes, in place.

    Their arguments are the tensor and a constant (256,), by the bits of the tensor's elements.
    """
    # result of a table -> the rounding that the table replaced
    roundings: dict[Value, Node] = {}

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        linear = linear_of(node, "quantize")
        if linear is None:
            return [node]
        chain = _TableChain(roundings, node.output.dims)
        if not chain.trace(node):
            return [node]
        table = constant(chain.evaluated(machine), f"{node.layer}_table")
        args, dtype = [chain.sources[0], table], linear.dtype
        made = make_node(TABLE, args, node.output.dims, dtype=dtype, layer=node.layer)
        roundings[made.output] = node
        mapping[node.output] = made.output
        return [made]

    graph.forward(visit)


class _TableChain:
    """A chain of steps that computes a function of one INT8 tensor.

    A step holds its operator, the steps that it reads, and other properties. Scales and zero points
    are referred to by their index, so that chains that differ only in these are compiled once.

    ``roundings`` maps the result of a table to the rounding that the table replaced, so that chains
    continue before it. ``shape`` is the shape of all tensors of the chain.
    """

    def __init__(self, roundings: dict[Value, Node], shape: tuple[int, ...]) -> None:
        self.roundings, self.shape = roundings, shape
        # the first step is the tensor itself
        self.steps: list[tuple[Any, ...]] = [("data",)]
        self.functions: dict[int, Callable[[Expr], Expr]] = {}
        self.scales: list[float] = []
        self.integers: list[int] = []
        self.known: dict[Value, int] = {}
        self.sources: list[Value] = []

    def trace(self, node: Node) -> bool:
        """Follow a rounding back to the tensor; False if it is not a function of one tensor."""
        return self._value(node.output, node) is not None and len(self.sources) == 1

    def evaluated(self, machine: Machine) -> Array:
        """The last step's values for all bits of the source."""
        from tvmconv.machines.targets import resolve_machine

        runner = machine if not lacks(machine) else resolve_machine("native", 1)
        key = (tuple(self.steps), len(self.scales), len(self.integers), runner.mcpu)
        if key not in _COMPILED:
            _COMPILED[key] = self._compiled(runner)
        data = np.arange(ENTRIES, dtype=np.uint8).view(self.sources[0].dtype)
        return _called(
            _COMPILED[key],
            [data, np.array(self.scales, np.float32), np.array(self.integers, np.int32)],
            self.steps[-1][-1],
        )

    def _compiled(self, machine: Machine) -> Any:
        """The compiled chain."""
        from tvmconv.kernels.rules import schedule_function
        from tvmconv.tir.pipeline import compile_function

        x = te.placeholder((ENTRIES,), self.sources[0].dtype, name="data")
        scales = te.placeholder((len(self.scales),), "float32", name="scales")
        zeros = te.placeholder((len(self.integers),), "int32", name="zeros")
        stages: list[Tensor] = [x]
        for number, step in enumerate(self.steps[1:], 1):
            stages.append(self._stage(number, step, stages, scales, zeros))
        arguments = [x, scales, zeros, stages[-1]]
        function = te.create_prim_func(arguments).with_attr("global_symbol", "main")
        return compile_function(schedule_function(function, machine), machine)

    def _stage(
        self, number: int, step: tuple[Any, ...], stages: list[Tensor], *numbers: Tensor
    ) -> Tensor:
        scales, zeros = numbers
        kind, *rest = step

        def element(i: Expr) -> Expr:
            if kind == "number":
                return scales[rest[0]]
            if kind == "dequantize":
                return dequantised(stages[rest[0]][i], scales[rest[1]], zeros[rest[2]])
            if kind == "quantize":
                scale, zero = scales[rest[1]], zeros[rest[2]]
                return quantised(stages[rest[0]][i], scale, zero, rest[3])
            if kind in _BINARY:
                return _BINARY[kind](stages[rest[0]][i], stages[rest[1]][i])
            return self.functions[number](stages[rest[0]][i])

        return te.compute((ENTRIES,), element, name=f"step{number}")

    def _value(self, value: Value, node: Node | None) -> int | None:
        """The step that computes a value."""
        if value in self.known:
            return self.known[value]
        if len(self.steps) > _MOST_STEPS:
            return None
        found = self._step(value, node)
        if found is not None:
            self.known[value] = found
        return found

    def _step(self, value: Value, node: Node | None) -> int | None:
        if value.data is not None:
            return self._number(value)
        if value.shape != self.shape or node is None:
            return None
        linear = linear_of(node)
        if linear is not None:
            before = self._read(node.args[0]) if node.op == "dequantize" else self._of(node.args[0])
            if before is None:
                return None
            self.scales.append(linear.scale)
            self.integers.append(linear.zero_point)
            places = (len(self.scales) - 1, len(self.integers) - 1)
            return self._add(node.op, before, *places, linear.dtype)
        function = scalar_expression(node)
        if function is not None:
            before = self._of(node.inputs[0])
            if before is None:
                return None
            self.functions[len(self.steps)] = function
            return self._add(node.op, before, repr(sorted(node.attrs.items())))
        if node.op not in _BINARY or node.output.dtype != "float32":
            return None
        left, right = (self._of(argument) for argument in node.args)
        return None if left is None or right is None else self._add(node.op, left, right)

    def _of(self, value: Value) -> int | None:
        return self._value(value, value.producer)

    def _read(self, value: Value) -> int | None:
        """An 8-bit tensor: the source, or a table of it."""
        if value.shape != self.shape or value.dtype not in EIGHT_BITS or value.is_const:
            return None
        if value in self.roundings:
            return self._value(value, self.roundings[value])
        if value not in self.sources:
            self.sources.append(value)
        return 0

    def _number(self, value: Value) -> int | None:
        """A constant that is one number for all elements."""
        data = value.data
        if data is None or not data.size or value.dtype != "float32":
            return None
        first = data.reshape(-1)[0]
        if not np.all(data == first):
            return None
        self.scales.append(float(np.float32(first)))
        return self._add("number", len(self.scales) - 1)

    def _add(self, *step: Any) -> int:
        self.steps.append(step)
        return len(self.steps) - 1
