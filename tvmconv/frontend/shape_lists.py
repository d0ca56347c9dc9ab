"""Several shapes of a model's inputs, given as lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from numbers import Integral
from typing import Any

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import ShapeLists, Shapes
from tvmconv.frontend.inputs import check_shapes


def each_of(shapes: ShapeLists | None, inputs: Collection[str]) -> list[Shapes | None]:
    """The shapes of each program; one entry where nothing is a list.

    ``inputs`` are names of inputs, whose shapes are sequences themselves. Raises ``ModelError`` if
    lists have different lengths.
    """
    if shapes is None:
        return [None]
    lists = {name: _listed(value, name in inputs) for name, value in check_shapes(shapes).items()}
    lengths = {name: len(values) for name, values in lists.items() if len(values) != 1}
    count = max(lengths.values(), default=1)
    if any(length != count for length in lengths.values()):
        said = ", ".join(f"{length} for {name!r}" for name, length in lengths.items())
        raise ModelError(
            f"shapes= lists different numbers of shapes: {said}. Expected lists of one length. "
            "Give each input a shape for every program, or one shape for all."
        )
    return [
        {name: values[index % len(values)] for name, values in lists.items()}
        for index in range(count)
    ]


def largest_first(programs: Sequence[Shapes | None]) -> list[int]:
    """Indices of programs in the order of their sizes."""

    def size(index: int) -> int:
        values = (programs[index] or {}).values()
        sizes = (n for value in values for n in (value if isinstance(value, Sequence) else [value]))
        # other values are refused when the model is read
        return prod(int(n) for n in sizes if isinstance(n, Integral))

    return sorted(range(len(programs)), key=size, reverse=True)


def check_different(programs: Sequence[Sequence[tuple[int, ...]]]) -> None:
    """Refuse shapes of inputs that are given twice, or whose ranks differ."""
    known: set[tuple[tuple[int, ...], ...]] = set()
    for program in programs:
        shapes = tuple(program)
        if shapes in known:
            said = ", ".join(map(str, shapes))
            raise ModelError(f"shapes= has {said} twice. Expected different shapes. Leave one out.")
        known.add(shapes)
    if len({tuple(map(len, shapes)) for shapes in known}) > 1:
        raise ModelError(
            "shapes= has shapes of different ranks for one input. Expected one rank. Build a model "
            "for each rank."
        )


def _listed(value: Any, is_input: bool) -> list[Any]:
    """The shapes, or sizes of a dimension, that a value holds."""
    if not isinstance(value, list | tuple) or not value:
        return [value]
    if is_input and not isinstance(value[0], list | tuple):
        return [value]
    return list(value)
