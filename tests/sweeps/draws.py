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

OPSET = 20
# elements of the largest tensor that is drawn
LARGEST = 1 << 20
# vector operations as long as one of a division, or half of a square root
DIVISION = 4


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
        Inputs of the node: the shape of a run-time input, the value of a constant, None for one
        that is left out.
    attributes
        Attributes of the node.
    outputs
        How many results the node has.
    dtype
        Type of the run-time inputs.
    operations
        Vector operations of an element of the first result.
    work
        Vector operations in all, instead of ``operations``; counted in elements.
    """

    operator: str
    name: str
    operands: tuple[tuple[int, ...] | np.ndarray | None, ...]
    attributes: dict[str, Any]
    outputs: int = 1
    dtype: str = "float32"
    operations: float = 1.0
    work: float | None = None

    def __str__(self) -> str:
        given = {
            f"input {i}": o.tolist()
            for i, o in enumerate(self.operands)
            if isinstance(o, np.ndarray) and o.size < 9
        }
        told = [f"{key}={value}" for key, value in {**given, **self.attributes}.items()]
        return " ".join([self.operator, *map(str, self.inputs), *told]).replace(", ", ",")

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """Shapes of the run-time inputs."""
        return [tuple(o) for o in self.operands if isinstance(o, tuple)]

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constants."""
        return sum(o.nbytes for o in self.operands if isinstance(o, np.ndarray))


class Draw:
    """Random choices of one case."""

    def __init__(self, seed: int, operator: str, index: int, largest: int = LARGEST) -> None:
        self.random = random.Random(f"{seed} {operator} {index}")
        self.operator, self.name, self.largest = operator, f"{operator}:{index}", largest
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

    def values(self, *shape: int, dtype: str = "float32") -> np.ndarray:
        """Normally distributed constants."""
        return self.numbers.standard_normal(shape).astype(dtype)

    def case(
        self, *operands: tuple[int, ...] | np.ndarray | None, operations: float = 1.0, **rest: Any
    ) -> Case:
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
                code = helper.np_dtype_to_tensor_dtype(np.dtype(case.dtype))
                inputs.append(helper.make_tensor_value_info(name, code, operand))
            names.append("" if operand is None else name)
        results = [f"c{number}_out{i}" for i in range(case.outputs)]
        nodes.append(
            helper.make_node(case.operator, names, results, name=case.name, **case.attributes)
        )
        outputs += [onnx.ValueInfoProto(name=result) for result in results]
    graph = helper.make_graph(nodes, "sweep", inputs, outputs, constants)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9),
        strict_mode=True,
        data_prop=True,
    )
