"""The checked model as plain data, which the reader passes to the converters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.errors import ModelError, ShapeError
from tvmconv.core.tensor import TensorInfo

_REMEDY = "correct the model and export it again"
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OnnxNode:
    """One operator: decoded attributes, names of inputs and outputs (``""`` for an absent input).

    ``opset`` is the version of the model's default operator set, which defines the operator.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    opset: int

    def error(self, problem: str, remedy: str = _REMEDY) -> ModelError:
        """A :class:`ModelError` that names this node and operator."""
        action = f"{remedy[0].upper()}{remedy[1:]}"
        return ModelError(f"node {self.name!r} ({self.op}): {problem}. {action}.")

    def misfit(self, problem: str) -> ShapeError:
        """An error about shapes that contradict each other."""
        return ShapeError(f"node {self.name!r} ({self.op}): {problem}", _REMEDY)

    def input(self, index: int) -> str:
        """Name of an input, ``""`` where the optional input is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def ints(self, name: str, default: Iterable[int]) -> tuple[int, ...]:
        """An integer-list attribute."""
        return tuple(int(v) for v in self.attrs.get(name, default))


@dataclass(frozen=True)
class Extent:
    """An axis of a value of which only the first elements exist; ``value`` says how many.

    ``value`` is an INT64 value of shape (1,). It is never more than the axis's size.
    """

    axis: int
    value: str


@dataclass
class OnnxGraph:
    """Nodes in execution order, every value with a static shape, constants as numpy arrays.

    ``extents`` are of values whose size depends on the data. The shape of such a value is its
    largest one. ``sizes`` are the values that say how many elements of such outputs exist. A graph
    that ``is_nested`` belongs to a node of another graph.
    """

    name: str
    opset: int
    ir_version: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, TensorInfo] = field(default_factory=dict)
    extents: dict[str, Extent] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()
    is_nested: bool = False
    # results by what computes them, so that equal sizes have one name
    computed: dict[tuple[Any, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, repr=False)

    def shape(self, name: str) -> tuple[int, ...]:
        """Static shape of a value."""
        return self.types[name].shape

    def nested(self) -> Iterator[OnnxGraph]:
        """The graphs that nodes of this one run."""
        for node in self.nodes:
            yield from (value for value in node.attrs.values() if isinstance(value, OnnxGraph))

    def add_constant(self, name: str, value: Array) -> str:
        """Store an array under a name that no other value has; returns that name."""
        unique = self.unused_name(name)
        self.constants[unique] = value
        self.types[unique] = TensorInfo(unique, tuple(value.shape), str(value.dtype))
        return unique

    def add_node(self, node: OnnxNode, infos: Iterable[TensorInfo]) -> None:
        """Add a node after the others, and the types of its outputs."""
        self.types.update((info.name, info) for info in infos)
        self.nodes.append(node)

    def unused_name(self, name: str) -> str:
        """The name, with a number appended where another value has it."""
        unique = name
        while unique in self.types:
            # continue after the last number, so that many equal names stay cheap
            count = self._numbers[name] = self._numbers.get(name, 0) + 1
            unique = f"{name}.{count}"
        return unique

    def not_numbers(self) -> list[str]:
        """Constants that hold NaN, in nested graphs as well."""
        floats = (
            (name, value) for name, value in self.constants.items() if value.dtype.kind == "f"
        )
        own = [name for name, value in floats if np.isnan(value).any()]
        inner = [name for graph in self.nested() for name in graph.not_numbers()]
        return list(dict.fromkeys(own + inner))

    def results(self) -> tuple[str, ...]:
        """The outputs, and the sizes of those whose size depends on the data."""
        return (*(output.name for output in self.outputs), *self.sizes)

    def use_counts(self) -> Counter[str]:
        """How many node inputs and graph outputs read each value."""
        counts = Counter(name for node in self.nodes for name in node.inputs)
        counts.update(self.results())
        return counts
