"""Random cases of single operators: shapes, axes and attributes.

Adding an operator is a function with ``@drawn(DRAWS, "Operator", ...)`` in a module of draws. It
gets a :class:`Draw` and returns ``draw.case(...)``. Arguments: the operands in order, the
attributes of the node, and the vector operations of an element of the result (or the total as
``work``). The bound follows from them: :mod:`tests.sweeps.bounds`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 24
# elements of the largest tensor that is drawn
LARGEST = 1 << 20
# vector operations as long as one of a division, or half of a square root
DIVISION = 4


@dataclass(frozen=True, eq=False)
class Given:
    """A run-time input whose type and values are drawn with the case."""

    values: np.ndarray


# the shape of a run-time input, its values, the value of a constant, None for one that is left out
Operand = tuple[int, ...] | Given | np.ndarray | None


@dataclass(frozen=True)
class Case:
    """One operator on operands of fixed shapes.

    Parameters
    ----------
    operator
        Name in ONNX.
    name
        ``operator:index``, which with the seed repeats the draw.
    operands
        Inputs of the node.
    attributes
        Attributes of the node.
    outputs
        How many results the node has.
    dtype
        Type of the run-time inputs that are only a shape.
    operations
        Vector operations of an element of the first result.
    work
        Vector operations in all, instead of ``operations``; counted in elements.
    """

    operator: str
    name: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Any]
    outputs: int = 1
    dtype: str = "float32"
    operations: float = 1.0
    work: float | None = None

    def __str__(self) -> str:
        given = {
            f"input {i}": o.tolist()
            for i, o in enumerate(self.operands)
            if isinstance(o, np.ndarray) and (o.size == 1 or (o.size < 9 and o.dtype.kind == "i"))
        }
        told = [f"{key}={value}" for key, value in {**given, **self.attributes}.items()]
        if self.dtype != "float32":
            told.append(self.dtype)
        return " ".join([self.operator, *map(str, self.inputs), *told]).replace(", ", ",")

    @property
    def run_time(self) -> dict[int, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of each run-time input, by its place."""
        return {
            place: (o.values.shape, o.values.dtype)
            if isinstance(o, Given)
            else (tuple(o), np.dtype(self.dtype))
            for place, o in enumerate(self.operands)
            if isinstance(o, (tuple, Given))
        }

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """Shapes of the run-time inputs."""
        return [shape for shape, _ in self.run_time.values()]

    @property
    def operand_bytes(self) -> int:
        """Bytes of all operands."""
        constants = sum(o.nbytes for o in self.operands if isinstance(o, np.ndarray))
        return constants + sum(prod(s) * dtype.itemsize for s, dtype in self.run_time.values())


class Draw:
    """Random choices of one case."""

    def __init__(self, seed: int, operator: str, index: int, largest: int = LARGEST) -> None:
        self.random = random.Random(f"{seed} {operator} {index}")
        # names after a dot distinguish draws of one operator
        self.operator = operator.partition(".")[0]
        self.name, self.largest = f"{operator}:{index}", largest
        self.numbers = np.random.default_rng(self.random.randrange(1 << 32))

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def size(self, about: float) -> int:
        """A size near a number: as it is, a power of two, one off it, or a multiple of 8."""
        exact = max(1, round(about))
        power = 1 << max(0, (exact - 1).bit_length())
        eights = max(8, exact // 8 * 8)
        return max(1, self.pick(exact, exact, power, power - 1, power + 1, eights, eights))

    def shape(self, low: int = 1, high: int = 5, largest: int | None = None) -> tuple[int, ...]:
        """A shape whose elements are from a few to the largest, evenly by their logarithm."""
        largest = largest or self.largest
        rank = self.random.randint(low, high)
        target = 2 ** self.random.uniform(3, np.log2(largest))
        shares = [self.random.expovariate(1.0) for _ in range(rank)]
        while True:
            sizes = [self.size(target ** (share / sum(shares))) for share in shares]
            if rank > 2 and self.pick(True, False, False):
                sizes[0] = 1
            if prod(sizes) <= largest:
                return tuple(sizes)
            target /= 2

    def image(self, most_channels: int = 512) -> tuple[int, int, int, int]:
        """N, C, H, W as networks have them."""
        channels = self.size(2 ** self.random.uniform(0, np.log2(most_channels)))
        height = self.size(2 ** self.random.uniform(2, 7.5))
        width = self.pick(height, height, self.size(2 ** self.random.uniform(2, 7.5)))
        while channels * height * width > self.largest:
            channels, height, width = (max(1, d * 3 // 4) for d in (channels, height, width))
        batch = self.pick(1, 1, 1, 2, 3)
        return (batch if batch * channels * height * width <= self.largest else 1,
                channels, height, width)  # fmt: skip

    def axis(self, shape: Sequence[int]) -> int:
        return self.random.randrange(len(shape))

    def part(self, shape: Sequence[int], axis: int) -> list[int]:
        """The shape with some or all of its places along an axis."""
        some = self.random.randint(1, shape[axis])
        return [*shape[:axis], some, *shape[axis + 1 :]]

    def values(self, *shape: int, dtype: str = "float32") -> np.ndarray:
        """Normally distributed constants."""
        return self.numbers.standard_normal(shape).astype(dtype)

    def dtype(self, *others: str) -> str:
        """float32 in two of three cases."""
        return "float32" if self.pick(True, True, False) else str(self.pick(*others))

    def case(self, *operands: Operand, operations: float = 1.0, **rest: Any) -> Case:
        """The drawn case; ``rest`` are attributes of the node, or fields of :class:`Case`."""
        fields = {key: rest.pop(key) for key in ("outputs", "dtype", "work") if key in rest}
        return Case(self.operator, self.name, operands, rest, operations=operations, **fields)


# how each operator is drawn
Draws = dict[str, Callable[[Draw], Case]]


def drawn(
    draws: Draws, *operators: str
) -> Callable[[Callable[[Draw], Case]], Callable[[Draw], Case]]:
    """Add a function that draws cases of these operators."""

    def add(function: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
        draws.update(dict.fromkeys(operators, function))
        return function

    return add


def model_of(cases: Sequence[Case]) -> onnx.ModelProto:
    """A model of independent nodes, each named as its case."""
    nodes, inputs, outputs, constants = [], [], [], []
    for number, case in enumerate(cases):
        names = []
        for place, operand in enumerate(case.operands):
            name = f"c{number}_{place}"
            if isinstance(operand, np.ndarray):
                constants.append(numpy_helper.from_array(operand, name))
            elif operand is not None:
                shape, dtype = case.run_time[place]
                code = helper.np_dtype_to_tensor_dtype(dtype)
                inputs.append(helper.make_tensor_value_info(name, code, shape))
            names.append("" if operand is None else name)
        results = [f"c{number}_out{i}" for i in range(case.outputs)]
        nodes.append(
            helper.make_node(case.operator, names, results, name=case.name, **case.attributes)
        )
        outputs += [onnx.ValueInfoProto(name=result) for result in results]
    graph = helper.make_graph(nodes, "sweep", inputs, outputs, constants)
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10),
        strict_mode=True,
        data_prop=True,
    )
    for number, case in enumerate(cases):
        if case.operator == "GroupNormalization":
            # onnx infers no shape of it
            value = next(o for o in model.graph.output if o.name == f"c{number}_out0")
            value.CopyFrom(helper.make_tensor_value_info(value.name, 1, case.inputs[0]))
    return model
