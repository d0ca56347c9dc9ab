"""Nodes that compute with the sizes of values whose size depends on the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.cut import cut_text
from tvmconv.frontend.graph import Extent, OnnxGraph, OnnxNode

# operator set of the nodes that are added: Where, and Max and Min of integers
_OPSET = 13


@dataclass
class Maker:
    """Adds nodes that belong to one node of the model."""

    graph: OnnxGraph
    node: OnnxNode
    fresh: Callable[[str], str]

    def add(
        self, op: str, inputs: Iterable[str], shape: tuple[int, ...], dtype: str, **attrs: Any
    ) -> str:
        """Add a node of one result; gives the name of the result."""
        name = self.fresh(f"{self.node.name or self.node.outputs[0]}.{op.lower()}")
        self.graph.types[name] = TensorInfo(name, shape, dtype)
        self.graph.nodes.append(OnnxNode(name, op, tuple(inputs), (name,), attrs, _OPSET))
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Store a constant under a name of its own."""
        return self.graph.add_constant(self.fresh("extent.constant"), np.asarray(value, dtype))

    def calculated(self, op: str, left: str, right: int | str) -> str:
        """A size computed from another one."""

        def make() -> str:
            other = self.constant([right]) if isinstance(right, int) else right
            return self.add(op, (left, other), (1,), "int64")

        return self._once((op, left, right), make)

    def after(self, size: str, start: int) -> str:
        """The size of what follows the first elements, which may be more than there are."""
        return self.calculated("Max", self.calculated("Sub", size, start), 0) if start else size

    def size(self, name: str) -> str:
        """A size, given by an INT64 value of one element."""
        if self.graph.shape(name) == (1,):
            return name
        ones = self.constant([1])
        return self._once(("size", name), lambda: self.add("Reshape", (name, ones), (1,), "int64"))

    def _once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        """A value that other nodes may have made already."""
        computed = self.graph.computed
        if key not in computed:
            computed[key] = (make(),)
        return computed[key][0]

    def is_inside(self, name: str, extent: Extent) -> str:
        """Whether each index along the axis exists, in a shape that broadcasts."""
        shape = self.graph.shape(name)
        places = np.arange(shape[extent.axis]).reshape(
            (-1,) + (1,) * (len(shape) - extent.axis - 1)
        )
        return self.add("Less", (self.constant(places), extent.value), places.shape, "bool")

    def filled(self, name: str, fill: str | int) -> str:
        """The value with a neutral element beyond its size."""
        return self.filled_by(name, _number(fill, np.dtype(self.graph.types[name].dtype)))

    def filled_by(self, name: str, number: Any) -> str:
        """The value with a number beyond its size."""
        info, extent = self.graph.types[name], self.graph.extents[name]

        def make() -> str:
            inside = self.is_inside(name, extent)
            other = self.constant(number, info.dtype)
            return self.add("Where", (inside, name, other), info.shape, info.dtype)

        return self._once(("filled", name, str(number)), make)

    def refusal(self, name: str) -> ModelError:
        """The error of an operator that does not take a value of such a size."""
        return refusal(self.graph, self.node, name)


def refusal(graph: OnnxGraph, node: OnnxNode, name: str) -> ModelError:
    """The error of an operator that does not take a value whose size depends on the data."""
    axis = graph.extents[name].axis
    return node.error(
        f"the size of its input {name!r} along axis {axis} depends on the data, which the operator "
        "does not support there",
        before(graph, [name]),
    )


def before(graph: OnnxGraph, names: Sequence[str]) -> str:
    """A remedy: a cut at values that a node of the graph reads."""
    if graph.is_nested:
        return "end the model before the node of this sub-graph: `tvmconv check` prints how"
    options = cut_text([name for name in names if any(name in n.outputs for n in graph.nodes)])
    return f"end the model before it by {options}" if options else "make it a constant"


def _number(fill: str | int, dtype: np.dtype[Any]) -> Any:
    if isinstance(fill, int):
        return fill
    if dtype.kind == "b":
        return fill == "highest"
    if dtype.kind == "f":
        return np.inf if fill == "highest" else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if fill == "highest" else limits.min


# the node with other inputs, and what its outputs have: an extent, or none
Found = tuple[OnnxNode, Extent | None]
Rule = Callable[[Maker, OnnxNode, list[TensorInfo]], Found]


def only(make: Maker, node: OnnxNode, *places: int) -> tuple[str, Extent]:
    """The varying input and its extent; refuses inputs at other places, and several."""
    names = [(place, name) for place, name in enumerate(node.inputs) if name in make.graph.extents]
    for place, name in names:
        if place not in places or len(names) > 1:
            raise make.refusal(name)
    name = names[0][1]
    return name, make.graph.extents[name]


def with_input(node: OnnxNode, name: str, place: int = 0) -> OnnxNode:
    """The node with one other input."""
    return replace(node, inputs=(*node.inputs[:place], name, *node.inputs[place + 1 :]))
