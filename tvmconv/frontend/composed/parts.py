"""Writes an operator as several operators that the reader knows, and the registry of those.

A composed operator is written in the forms of the model's own operator set. Thus a model that has
been read can be saved in the same operator set again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from onnx import helper

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.nested.subgraphs import Fresh


class Reader(Protocol):
    """Reads parts while they are written, so that their shapes and constants are known."""

    graph: OnnxGraph

    def read_part(self, part: OnnxNode, domain: str) -> None:
        """Check, fold or infer one part."""

    def check_memory(self, size: int) -> None:
        """Refuse constants of too many bytes."""

    def store(self, name: str, value: Array) -> None:
        """Add a constant."""


class Parts:
    """The parts of one node, in execution order.

    Methods add a part and return the name of its result. ``node`` is the composed node.
    """

    def __init__(self, reader: Reader, node: OnnxNode, fresh: Fresh) -> None:
        self._reader = reader
        self._fresh = fresh
        self.graph = reader.graph
        self.node = node
        self._counts: Counter[str] = Counter()

    def error(self, problem: str, remedy: str = "export the model again") -> ModelError:
        """An error about the composed node."""
        return self.node.error(problem, remedy)

    def shape(self, name: str) -> tuple[int, ...]:
        """Static shape of a value."""
        return self.graph.shape(name)

    def dtype(self, name: str) -> str:
        """Element type of a value."""
        return self.graph.types[name].dtype

    def array(self, name: str) -> Array | None:
        """Array of a constant value, else ``None``."""
        return self.graph.constants.get(name)

    def known(self, index: int, what: str) -> Array:
        """Array of an input that must be a constant."""
        value = self.array(self.node.input(index))
        if value is None:
            raise self.error(
                f"its {what} (input {index}) is computed at run time",
                "store it as a constant in the model",
            )
        return value

    def required(self, index: int) -> str:
        """Name of an input that must be present."""
        if not self.node.input(index):
            raise self.error(f"its input {index} is missing")
        return self.node.input(index)

    def expect_integers(self, name: str) -> None:
        """Refuse a value that is not of int32 or int64."""
        if self.dtype(name) not in ("int32", "int64"):
            raise self.error(f"{name!r} is {self.dtype(name)}, not int32 or int64")

    def wants(self, index: int) -> bool:
        """Whether the composed node has an output of this index."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def expect_rank(self, name: str, *ranks: int) -> tuple[int, ...]:
        """The shape of a value that must have one of the ranks."""
        shape = self.shape(name)
        if len(shape) not in ranks:
            expected = " or ".join(map(str, ranks))
            raise self.error(f"{name!r} has shape {shape}; it must have {expected} axes")
        return shape

    def expect_shape(self, name: str, *shapes: tuple[int, ...]) -> None:
        """Refuse a value of another shape."""
        if self.shape(name) not in shapes:
            expected = " or ".join(map(str, dict.fromkeys(shapes)))
            raise self.error(f"{name!r} has shape {self.shape(name)}, not {expected}")

    def flag(self, attribute: str, default: int = 0) -> bool:
        """An attribute that must be 0 or 1."""
        value = self.node.attrs.get(attribute, default)
        if value not in (0, 1):
            raise self.error(f"{attribute}={str(value)[:80]} must be 0 or 1")
        return bool(value)

    def heads(self, attribute: str, size: int) -> int:
        """A number of heads, which must divide ``size``."""
        count = self.node.attrs.get(attribute, 0)
        if not isinstance(count, int) or count < 1 or size % count:
            raise self.error(f"{attribute}={count!r} does not divide {size}")
        return count

    def many(
        self, op: str, *inputs: str, count: int, domain: str = "", main: bool = False, **attrs: Any
    ) -> list[str]:
        """Results of an operator; ``main`` gives the part the node's own name."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        names = [self._fresh(f"{self.node.outputs[0]}.{op.lower()}") for _ in range(count)]
        name = self.node.name if main else self._own_name(op.lower())
        part = OnnxNode(name, op, inputs, tuple(names), attrs, self.node.opset)
        self._reader.read_part(part, domain)
        return names

    def _own_name(self, kind: str) -> str:
        self._counts[kind] += 1
        count = self._counts[kind]
        return f"{self.node.name}.{kind}{count if count > 1 else ''}"

    def op(self, op: str, *inputs: str, **options: Any) -> str:
        """The result of an operator; options are attributes and options of :meth:`many`."""
        return self.many(op, *inputs, count=1, **options)[0]

    def check_memory(self, size: int) -> None:
        """Refuse constants of too many bytes."""
        self._reader.check_memory(size)

    def constant(self, value: Array) -> str:
        """A new constant."""
        name = self._fresh(f"{self.node.outputs[0]}.constant")
        self._reader.store(name, value)
        return name

    def scalar(self, value: float, like: str) -> str:
        """A constant number in the type of a value."""
        return self.constant(np.asarray(value, numpy_type(self.dtype(like))))

    def integers(self, *values: int) -> str:
        """A constant list of int64."""
        return self.constant(np.asarray(values, np.int64))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """A value in another shape."""
        if self.shape(x) == tuple(shape):
            return x
        if prod(shape) != prod(self.shape(x)):
            raise self.error(f"{x!r} of shape {self.shape(x)} does not have shape {tuple(shape)}")
        return self.op("Reshape", x, self.integers(*shape))

    def transpose(self, x: str, *perm: int) -> str:
        """A value with its axes in another order."""
        return x if perm == tuple(range(len(perm))) else self.op("Transpose", x, perm=perm)

    def cast(self, x: str, dtype: str) -> str:
        """A value in another element type."""
        if self.dtype(x) == dtype:
            return x
        return self.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(numpy_type(dtype)))

    def scaled(self, x: str, factor: float) -> str:
        """A value times a number."""
        return x if factor == 1.0 else self.op("Mul", x, self.scalar(factor, x))

    def slice(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """A part of a value along one axis."""
        if (start, end, step) == (0, self.shape(x)[axis], 1):
            return x
        if self.node.opset >= 10:
            bounds = (self.integers(bound) for bound in (start, end, axis, step))
            return self.op("Slice", x, *bounds)
        if step != 1:
            raise self.error(f"operator set {self.node.opset} has no Slice with steps")
        return self.op("Slice", x, starts=(start,), ends=(end,), axes=(axis,))

    def split(self, x: str, axis: int, sizes: Sequence[int]) -> list[str]:
        """Parts of these sizes along one axis."""
        if sum(sizes) != self.shape(x)[axis]:
            raise self.error(f"{x!r} of shape {self.shape(x)} has no parts of sizes {list(sizes)}")
        ends = np.cumsum(sizes).tolist()
        bounds = zip(ends, sizes, strict=True)
        return [self.slice(x, axis, end - size, end) for end, size in bounds]

    def concat(self, axis: int, *values: str) -> str:
        """Values one after the other along an axis."""
        return values[0] if len(values) == 1 else self.op("Concat", *values, axis=axis)

    def reduced(self, op: str, x: str, *axes: int, keepdims: int = 1) -> str:
        """A reduction over axes."""
        since = 13 if op == "ReduceSum" else 18
        if self.node.opset >= since:
            return self.op(op, x, self.integers(*axes), keepdims=keepdims)
        return self.op(op, x, axes=axes, keepdims=keepdims)

    def softmax(self, x: str) -> str:
        """Softmax over the last axis, which all operator sets define alike."""
        return self.op("Softmax", x, axis=len(self.shape(x)) - 1)


Compose = Callable[[Parts], "str | list[str]"]


@dataclass(frozen=True)
class Composition:
    """A function that writes an operator, and what the operator may have.

    A node with any other attribute is refused. ``types`` are the types of its first input; it is
    empty for operators that onnx defines.
    """

    write: Compose
    attributes: frozenset[str]
    inputs: int
    types: frozenset[str]

    def check(self, graph: OnnxGraph, node: OnnxNode) -> None:
        """Refuse attributes, inputs and types that the function does not know."""
        if unknown := sorted(set(node.attrs) - self.attributes):
            given = ", ".join(f"{name}={str(node.attrs[name])[:80]}" for name in unknown)
            raise node.error(f"attribute(s) {given} are not supported for this operator")
        if not all(node.input(index) for index in range(self.inputs)):
            raise node.error(
                f"it has inputs {list(node.inputs)}; the first {self.inputs} must be present"
            )
        dtype = graph.types[node.inputs[0]].dtype
        if self.types and dtype not in self.types:
            raise node.error(
                f"its first input is {dtype}; {' or '.join(sorted(self.types))} is supported"
            )


COMPOSITIONS: dict[tuple[str, str], Composition] = {}
FLOATS = "bfloat16 float16 float32 float64"


def composes(
    domain: str, *ops: str, attrs: str = "", inputs: int = 1, types: str = FLOATS
) -> Callable[[Compose], Compose]:
    """Register a function for operators of an operator set.

    ``attrs`` names the attributes that the function reads, separated by blanks. The first
    ``inputs`` inputs must be present.
    """

    def register(function: Compose) -> Compose:
        known, allowed = frozenset(attrs.split()), frozenset(types.split() if domain else ())
        for op in ops:
            COMPOSITIONS[domain, op] = Composition(function, known, inputs, allowed)
        return function

    return register
