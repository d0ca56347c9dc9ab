"""A model as it is drawn, node by node; every node is a valid one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.disputed import ROUNDS, reference
from tvmconv.frontend.nested.subgraphs import reads
from tvmconv.frontend.tensors import DTYPES

# other types, such as bfloat16, have no random numbers of NumPy
_CODES = {
    name: code
    for code, name in DTYPES.items()
    if helper.tensor_dtype_to_np_dtype(code).kind in "biuf"
}
_SPELLINGS = {"float": "float32", "double": "float64"}
# the types of most tensors, where an operator accepts several
_USUAL = ("float32",) * 6
_EXTENTS = (1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17)
# for values of many axes
_FEW = (1, 1, 2, 3)
_MOST_ELEMENTS = 20_000
_MOST_RANK = 6
# operators whose shapes onnx does not infer in some forms, though they do not depend on the data
_UNINFERRED = ("Attention", "GroupNormalization")
# names that other programs give values and nodes
_NAMES = ("{0}{1}",) * 8 + ("/block.{1}/{0}:0", "{1}", "{0} {1}", "\u00fc-{0}\u4e2d%{1}")


class Undrawable(Exception):
    """The draft's operator set or values do not allow what was drawn."""


@dataclass(frozen=True)
class Value:
    """A value of the model."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)


class Draft:
    """Nodes, inputs and constants so far."""

    def __init__(self, generator: random.Random, opset: int) -> None:
        self.generator, self.opset = generator, opset
        self.numbers = np.random.default_rng(generator.randrange(1 << 32))
        self.nodes: list[onnx.NodeProto] = []
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        # results whose size depends on the data, which most steps cannot go on with
        self.varying: list[Value] = []
        self.constants: dict[str, np.ndarray] = {}
        # scales and zero points of 8-bit values
        self.quantised: dict[str, tuple[Any, Any]] = {}
        self.odd_scales = generator.random() < 0.3
        # whether runtimes may round an integer otherwise
        self.rounds = False
        # whether results may have no elements, which most steps cannot go on with
        self.empties = False
        self.steps = self._count = 0
        self._names: str = generator.choice(_NAMES)
        self._node_names: str | None = generator.choice((None, None, None, ""))

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.generator.choice(choices)

    def chance(self, share: float) -> bool:
        return self.generator.random() < share

    def shape(self, low: int, high: int) -> tuple[int, ...]:
        rank = self.generator.randint(low, high)
        return tuple(self.pick(_EXTENTS if rank < 5 else _FEW) for _ in range(rank))

    def allowed(self, op: str, index: int = 0) -> list[str]:
        """Element types that an operator accepts at an input and that tvmconv has."""
        schema = self.schema(op)
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        names = [kind.removeprefix("tensor(").removesuffix(")") for kind in formal.types]
        found = [_SPELLINGS.get(name, name) for name in names]
        return sorted(name for name in found if name in _CODES)

    def schema(self, op: str) -> Any:
        try:
            return onnx.defs.get_schema(op, self.opset)
        except onnx.defs.SchemaError:
            raise Undrawable(op) from None

    def source(self, op: str, low: int = 0, high: int = _MOST_RANK) -> Value:
        """An operand of a rank and of any type for an operator's first input."""
        allowed = self.allowed(op)
        return self.value(allowed, low, high)

    def value(self, allowed: Sequence[str], low: int = 0, high: int = _MOST_RANK) -> Value:
        """A value that exists, or a new input."""
        known = [v for v in self.values if v.dtype in allowed and low <= v.rank <= high and
                 0 not in v.shape]  # fmt: skip
        if known and self.chance(0.75):
            return self.pick(known[-3:])
        shape, dtype = self.shape(low, high), self.dtype(allowed)
        # nodes on constants are computed while the model is read
        return (
            self.constant(self.array(shape, dtype))
            if self.chance(0.15)
            else self.input(shape, dtype)
        )

    def dtype(self, allowed: Sequence[str]) -> str:
        usual = [name for name in _USUAL if name in allowed]
        return self.pick([*usual, *allowed])

    def operand(self, shape: Sequence[int], dtype: str) -> Value:
        """A value of this shape and type: one that exists, an input or a constant."""
        shape = tuple(shape)
        known = [v for v in self.values if (v.shape, v.dtype) == (shape, dtype)]
        if known and self.chance(0.4):
            return self.pick(known)
        if self.chance(0.4):
            return self.input(shape, dtype)
        same = [n for n, a in self.constants.items() if (a.shape, a.dtype.name) == (shape, dtype)]
        if same and self.chance(0.3):
            return Value(self.pick(same), shape, dtype)
        return self.constant(self.array(shape, dtype))

    def array(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Normal numbers, or integers of a small or the whole range."""
        if dtype.startswith("float"):
            return self.numbers.standard_normal(shape).astype(dtype)
        if dtype == "bool":
            return self.numbers.integers(0, 2, shape).astype(dtype)
        ends = np.iinfo(dtype)
        low, high = (int(ends.min), int(ends.max)) if self.chance(0.3) else (max(ends.min, -5), 9)
        return self.numbers.integers(low, high, shape, dtype=dtype, endpoint=True)

    def input(self, shape: Sequence[int], dtype: str) -> Value:
        self._room(shape)
        if 0 in shape:
            raise Undrawable("a dimension of 0 is one that is not fixed")
        value = Value(self._fresh("x"), tuple(shape), dtype)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def constant(self, array: Any) -> Value:
        """An initializer, an earlier one of the same content, or a node's constant."""
        array = np.asarray(array)
        self._room(array.shape)
        for name, known in self.constants.items():
            alike = (known.dtype, known.shape) == (array.dtype, array.shape)
            if alike and known.tobytes() == array.tobytes() and self.chance(0.7):
                return Value(name, array.shape, array.dtype.name)
        value = Value(self._fresh("c"), array.shape, array.dtype.name)
        if self.chance(0.1):
            tensor = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [value.name], value=tensor))
        else:
            self.constants[value.name] = array
        return value

    def call(
        self,
        op: str,
        sources: Sequence[Value | None],
        outputs: int = 1,
        **parameters: Any,
    ) -> list[Value]:
        """A node; parameters are attributes or constant inputs, as the operator set has it."""
        schema = self.schema(op)
        places = [formal.name for formal in schema.inputs]
        operands: list[Value | None] = list(sources)
        attributes = {}
        for name, given in parameters.items():
            if name in schema.attributes:
                attributes[name] = given
            elif name in places:
                at = places.index(name)
                operands += [None] * (at + 1 - len(operands))
                operands[at] = given if isinstance(given, Value) else self.constant(given)
            else:
                raise Undrawable(f"{op} of operator set {self.opset} has no {name}")
        for index, operand in enumerate(operands):
            if operand is not None and operand.dtype not in self.allowed(op, index):
                raise Undrawable(f"{op} takes no {operand.dtype}")
        return self._append(op, operands, outputs, attributes)

    def foreign(
        self, op: str, sources: Sequence[Value], shape: Sequence[int], dtype: str, **attributes: Any
    ) -> Value:
        """A node of com.microsoft, whose results onnx does not infer."""
        self._room(shape)
        value = Value(self._fresh("v"), tuple(shape), dtype)
        names = [source.name for source in sources]
        self.nodes.append(
            helper.make_node(op, names, [value.name], value.name, None, "com.microsoft",
                             **attributes)
        )  # fmt: skip
        self.values.append(value)
        return value

    def place(self, nodes: Sequence[onnx.NodeProto], results: Sequence[Value]) -> None:
        """Nodes that were made elsewhere, with sub-graphs perhaps."""
        self.nodes += nodes
        self.values += results

    def empty(self) -> onnx.ModelProto:
        """A model of no nodes, with the operator sets of this one."""
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return onnx.ModelProto(opset_import=opsets, ir_version=10)

    def name(self, prefix: str) -> str:
        """A name that no value has."""
        return self._fresh(prefix)

    def _append(
        self, op: str, operands: Sequence[Value | None], outputs: int, attributes: dict[str, Any]
    ) -> list[Value]:
        names = [operand.name if operand else "" for operand in operands]
        while names and not names[-1]:
            names.pop()
        results = [self._fresh("v") for _ in range(outputs)]
        # outputs that need not be there
        for index, formal in enumerate(self.schema(op).outputs[1:outputs], 1):
            if formal.option == formal.option.Optional and self.chance(0.15):
                results[index] = ""
        name = self._fresh(op) if self._node_names is None else self._node_names
        node = helper.make_node(op, names, results, name, **attributes)
        found = self._inferred(node, [operand for operand in operands if operand])
        for value in found:
            self._room(value.shape)
        self.nodes.append(node)
        self.values += found
        return found

    def _inferred(self, node: onnx.NodeProto, operands: Sequence[Value]) -> list[Value]:
        """The results as onnx infers them; Undrawable where it finds the node wrong."""
        infos = {
            v.name: helper.make_tensor_value_info(v.name, _CODES[v.dtype], v.shape)
            for v in operands
        }
        known = {name: self.constants[name] for name in infos if name in self.constants}
        graph = helper.make_graph(
            [node], "node", [info for name, info in infos.items() if name not in known],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
            [numpy_helper.from_array(array, name) for name, array in known.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        try:
            inferred = onnx.shape_inference.infer_shapes(model, True, True, True)
        except Exception as error:  # any error of onnx: the node is not valid
            raise Undrawable(str(error)) from error
        results = []
        for info in inferred.graph.output:
            declared = info.type.tensor_type
            extents = tuple(d.dim_value if d.HasField("dim_value") else -1
                            for d in declared.shape.dim)  # fmt: skip
            dtype = DTYPES.get(declared.elem_type)
            if not declared.HasField("shape") or -1 in extents:
                given = {}
                if node.op_type in _UNINFERRED:
                    given = {v.name: np.zeros(v.shape, v.dtype) for v in operands}
                elif len(known) < len(infos) or not known:
                    raise Undrawable("its shape is not known")
                computed = np.asarray(reference(model).run([info.name], given)[0])
                extents, dtype = computed.shape, computed.dtype.name
            if dtype is None or (0 in extents and not self.empties):
                raise Undrawable("an output with another element type, or an empty one")
            results.append(Value(info.name, extents, dtype))
        return results

    def attempt(self, step: Callable[[Draft], Any]) -> bool:
        """Draw by a function; undo its changes if it fails."""
        lists = self.nodes, self.values, self.inputs, self.varying
        lengths, constants = [len(each) for each in lists], set(self.constants)
        try:
            step(self)
        except Undrawable:
            self.empties = False
            for each, length in zip(lists, lengths, strict=True):
                del each[length:]
            self.constants = {k: v for k, v in self.constants.items() if k in constants}
            kept = {value.name for value in self.values}
            self.quantised = {k: v for k, v in self.quantised.items() if k in kept}
            return False
        self.steps += 1
        return True

    def model(self) -> onnx.ModelProto:
        """The drawn model; outputs are all values that no node reads, and some more."""
        read = {name for node in self.nodes for name in reads(node)}
        made = {name for node in self.nodes for name in node.output}
        results = [v for v in self.values if v.name in made]
        outputs = [v for v in results if v.name not in read or self.chance(0.15)]
        outputs += [v for v in self.varying if v.name not in read or self.chance(0.3)]
        inputs = [v for v in self.inputs if v.name in read]
        # values that no node computes may be outputs, too
        outputs += [v for v in inputs if self.chance(0.03)]
        constants = [Value(n, a.shape, a.dtype.name) for n, a in self.constants.items()]
        outputs += [v for v in constants if v.name in read and self.chance(0.02)]
        # up to IR version 3 constants were inputs as well, and may be since
        listed = [n for n in self.constants if n in read and self.chance(0.1)]
        infos = [helper.make_tensor_value_info(v.name, _CODES[v.dtype], v.shape) for v in inputs]
        infos += [
            helper.make_tensor_value_info(
                n, _CODES[self.constants[n].dtype.name], self.constants[n].shape
            )
            for n in listed
        ]
        known = self.chance(0.5)
        graph = helper.make_graph(
            self.nodes, "drawn", infos,
            [helper.make_tensor_value_info(
                v.name, _CODES[v.dtype], v.shape if known and v not in self.varying else None)
             for v in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in read],
        )  # fmt: skip
        graph.doc_string = ROUNDS if self.rounds else ""
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.pick((8, 10, 13)))

    def _room(self, shape: Sequence[int]) -> None:
        if len(shape) > _MOST_RANK + 1 or np.prod(shape, dtype=float) > _MOST_ELEMENTS:
            raise Undrawable("too large")

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return self._names.format(prefix, self._count)
