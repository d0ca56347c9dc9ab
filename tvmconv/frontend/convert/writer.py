"""The state of a conversion to Relax, and the registry of converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvmconv.core.stored_types import code_type
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.frontend.ranges import IndexRanges
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import BlockBuilder, RelaxExpr


def constant(array: Array) -> RelaxExpr:
    """A Relax constant of the array's own type."""
    array = array.view(code_type(str(array.dtype)))
    # left alone, relax.const narrows 64-bit types; given a type, it copies once more
    wide = array.dtype in (np.int64, np.float64)
    return relax.const(array, str(array.dtype) if wide else None)


def dequantized(known: QuantizedConstant) -> RelaxExpr:
    """The numbers, computed by Relax from the integers."""
    operands = (constant(array) for array in (known.data, known.scale, known.zero_point))
    return relax.op.dequantize(*operands, known.axis)


class RelaxWriter:
    """Builds the body of ``main`` inside a dataflow block.

    Bindings are named after the ONNX node. The first binding without a suffix has the node's exact
    name, which is the layer's name in reports.
    """

    def __init__(self, graph: OnnxGraph, builder: BlockBuilder, budget: int) -> None:
        self._budget = budget
        self.graph = graph
        self.builder = builder
        self.uses = graph.use_counts()
        self.ranges = IndexRanges(graph)
        self.quantized: dict[str, QuantizedConstant] = {}
        # symbols of calls that run nested functions, by node
        self.symbols: dict[str, str] = {}
        self._values: dict[str, RelaxExpr] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._current = ""

    def begin(self, node: OnnxNode) -> None:
        """Name following bindings after this node."""
        self._current = node.name

    def define(self, name: str, value: RelaxExpr) -> None:
        """Set the expression of an ONNX value."""
        self._values[name] = value

    def value(self, name: str) -> RelaxExpr:
        """Relax expression of an ONNX value; a constant is copied into Relax once."""
        if name not in self._values:
            self._values[name] = constant(self.graph.constants[name])
        return self._values[name]

    def array(self, name: str) -> Array | None:
        """Array of a constant value, else ``None``."""
        return self.graph.constants.get(name)

    def constant(self, node: OnnxNode, index: int, what: str) -> Array:
        """Array of an input that must be a constant."""
        name = node.input(index)
        if name in self.quantized:
            return self.quantized[name].values()
        if name not in self.graph.constants:
            raise node.error(
                f"its {what} (input {index}) is {'computed at run time' if name else 'missing'}",
                "simplify the model, or store it as a constant in the model",
            )
        return self.graph.constants[name]

    def integer(self, node: OnnxNode, index: int, what: str) -> int:
        """The only number of an input that must be a constant."""
        return int(self.constant(node, index, what).reshape(-1)[0])

    def shape(self, name: str) -> tuple[int, ...]:
        """Static shape of an ONNX value."""
        return self.graph.shape(name)

    def dtype(self, name: str) -> str:
        """Element type of an ONNX value."""
        return self.graph.types[name].dtype

    def scalar(self, value: float | np.generic, dtype: str = "float32") -> RelaxExpr:
        """A constant of shape ()."""
        return constant(np.asarray(value, dtype))

    def reserve(self, node: OnnxNode, size: int) -> None:
        """Refuse a node whose tables, such as indices along an axis, are too large.

        Must be called before tables are made whose size depends on more than constants.
        """
        if size > self._budget:
            raise node.error(
                f"it needs {size} bytes of tables; at most {self._budget} are left",
                "check the model's sizes, or allow more with fold_budget",
            )
        self._budget -= size

    def emit(self, expr: RelaxExpr, suffix: str = "") -> RelaxExpr:
        """Bind an expression; the variable's name is the node's, with ``.suffix`` if given."""
        base = f"{self._current}.{suffix}" if suffix else self._current
        name = base
        while name in self._names:
            # continue after the last number, so that many equal names stay cheap
            count = self._numbers[base] = self._numbers.get(base, 0) + 1
            name = f"{base}.{count}"
        self._names.add(name)
        expr = self.builder.normalize(expr)
        # BlockBuilder.emit would replace dots in the name
        var = relax.DataflowVar(name, expr.ty)
        self.builder.emit_normalized(relax.VarBinding(var, expr))
        return var


Convert = Callable[[RelaxWriter, OnnxNode], RelaxExpr | list[RelaxExpr]]


@dataclass(frozen=True)
class Converter:
    """A conversion function with the attributes it reads.

    A node with any other attribute is refused: ONNX adds attributes in new operator sets, and
    ignoring one would change the result silently.
    """

    function: Convert
    attributes: frozenset[str]
    inputs: int


CONVERTERS: dict[str, Converter] = {}


def converts(*ops: str, attrs: str = "", inputs: int = 1) -> Callable[[Convert], Convert]:
    """Register a function for operators.

    ``attrs`` names the attributes that the function reads, separated by blanks. The first
    ``inputs`` inputs must be present.
    """

    def register(function: Convert) -> Convert:
        for op in ops:
            CONVERTERS[op] = Converter(function, frozenset(attrs.split()), inputs)
        return function

    return register
