"""Choices between loads and constants whose outcome is known for each element of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import local_buffer, substitute, variables

# a load or a constant, and for each element of a row whether it is chosen
Leaf = tuple[Any, list[bool]]


class LaneChoices:
    """The choices of an expression by the axes of a row: padding, and joined operands.

    Parameters
    ----------
    value
        An expression of the axes.
    axes
        Variable and extent of each axis of a row, outermost first.
    """

    def __init__(self, value: Any, axes: Sequence[tuple[Any, int]]) -> None:
        self._axes, self._analyzer = list(axes), sym.Analyzer()
        # the load that replaces a choice, by its buffer, and the leaves of the choice
        self.leaves: dict[Any, list[Leaf]] = {}
        # the expression with a load in place of each choice
        self.value = tvm_ffi.structural_map(value, (ir.Call, self._chosen), order="pre")

    def _chosen(self, call: Any) -> Any:
        if not is_select(call) or not self._by_axes(call.args[0]):
            return call
        leaves: list[Leaf] = []
        for element, values in enumerate(self._elements()):
            leaf = self._leaf(call, values)
            if leaf is None:
                return call
            known = (chosen for node, chosen in leaves if tvm_ffi.structural_equal(node, leaf))
            chosen = next(known, None)
            if chosen is None:
                chosen = [False] * len(self._elements())
                leaves.append((leaf, chosen))
            chosen[element] = True
        buffer = local_buffer((1,), str(call.ty.dtype), "choice")
        self.leaves[buffer] = leaves
        return tirx.BufferLoad(buffer, [tirx.IntImm("int32", 0)])

    def _by_axes(self, condition: Any) -> bool:
        found = variables(condition)
        return any(var.same_as(used) for var, _ in self._axes for used in found)

    def _elements(self) -> list[dict[Any, int]]:
        """The values of the axes at each element of a row."""
        elements: list[dict[Any, int]] = [{}]
        for var, extent in self._axes:
            elements = [{**outer, var: value} for outer in elements for value in range(extent)]
        return elements

    def _leaf(self, node: Any, values: dict[Any, int]) -> Any:
        """The load or constant that is chosen at an element; None if that is not known."""
        while isinstance(node, ir.Call) and is_select(node):
            condition, first, second = node.args
            outcome = self._analyzer.simplify(substitute(condition, values))
            if not isinstance(outcome, tirx.IntImm):
                return None
            node = first if int(outcome) else second
        return node if isinstance(node, ir.TensorLoad | tirx.FloatImm | tirx.IntImm) else None
