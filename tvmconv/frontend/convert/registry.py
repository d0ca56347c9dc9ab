"""Which function converts which ONNX operator, and which attributes it understands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api.types import RelaxExpr

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

    Parameters
    ----------
    ops
        ONNX operator names.
    attrs
        Names of the attributes that the function honours, separated by blanks.
    inputs
        How many leading inputs must be present.
    """

    def register(function: Convert) -> Convert:
        for op in ops:
            CONVERTERS[op] = Converter(function, frozenset(attrs.split()), inputs)
        return function

    return register
