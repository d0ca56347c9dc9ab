"""Recognizes Gelu, which exporters write as several operators.

It replaces the last operator of its pattern. Operators without readers are removed later. The graph
recognizes SiLU and HardSwish, see :mod:`tvmconv.graph.rewrite.activations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isclose, pi, sqrt

from tvmconv.frontend.graph import OnnxGraph, OnnxNode

# factors of the largest product in a Gelu, with its constants
_MOST_FACTORS = 6


def merge_idioms(graph: OnnxGraph) -> None:
    """Rewrite the graph in place."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    finder = _Finder(graph, makers)
    for index, node in enumerate(graph.nodes):
        found = finder.gelu_of(node)
        if found is None or graph.types[found[0]].dtype != "float32":
            continue
        source, mode = found
        if graph.shape(source) != graph.shape(node.outputs[0]):
            continue
        merged = replace(node, op="Gelu", inputs=(source,), attrs={"approximate": mode})
        graph.nodes[index] = merged
        makers[node.outputs[0]] = merged


class _Finder:
    """Compares products as a number and factors, which all orders of operators share."""

    def __init__(self, graph: OnnxGraph, makers: dict[str, OnnxNode]) -> None:
        self._graph = graph
        self._makers = makers

    def gelu_of(self, node: OnnxNode) -> tuple[str, str] | None:
        """x and the approximation, for the last node of 0.5 * x * (1 + f(x))."""
        if node.op not in ("Mul", "Div"):
            return None
        result = node.outputs[0]
        for x in self._parts(result):
            number, factors = self._product(result, x)
            if x in factors and len(factors) == 2 and isclose(number, 0.5, rel_tol=1e-6):
                factors.remove(x)
                for one, other in self._sums(factors[0]):
                    mode = self._curve(other, x) if self._scalar(one) == 1 else None
                    if mode:
                        return x, mode
        return None

    def _curve(self, name: str, x: str) -> str | None:
        """The approximation whose function of x a value is."""
        made = self._makers.get(name)
        if made is None or made.op not in ("Erf", "Tanh"):
            return None
        number, factors = self._product(made.inputs[0], x)
        if made.op == "Erf":
            return "none" if factors == [x] and _near(number, sqrt(0.5)) else None
        # x + 0.044715 x**3, or x (1 + 0.044715 x**2)
        outside = factors.count(x)
        rest = [factor for factor in factors if factor != x]
        if not _near(number, sqrt(2 / pi)) or outside > 1 or len(rest) != 1:
            return None
        for first, power in self._sums(rest[0]):
            starts = self._scalar(first) == 1 if outside else first == x
            scale, cubic = self._product(power, x)
            if starts and cubic == [x] * (3 - outside) and _near(scale, 0.044715):
                return "tanh"
        return None

    def _product(self, name: str, x: str) -> tuple[float, list[str]]:
        """The number and the factors whose product a value is; ``x`` is one of the factors."""
        number, left = 1.0, [name]
        factors: list[str] = []
        while left:
            name = left.pop()
            value = self._scalar(name)
            inner, divisor = self._factors(name)
            if value is not None:
                number *= value
            elif name == x or not inner or len(factors) + len(left) > _MOST_FACTORS:
                factors.append(name)
            else:
                left += inner
                number /= divisor
        return number, factors

    def _parts(self, name: str) -> list[str]:
        """All values that are multiplied to make a value."""
        left = [name]
        found: list[str] = []
        while left and len(found) <= _MOST_FACTORS:
            inner = [each for each in self._factors(left.pop())[0] if self._scalar(each) is None]
            found += inner
            left += inner
        return list(dict.fromkeys(found))

    def _factors(self, name: str) -> tuple[list[str], float]:
        """The operands of a product and the divisor of their result; none for other values."""
        made = self._makers.get(name)
        if made is None or made.op not in ("Mul", "Div", "Pow"):
            return [], 1.0
        left, right = made.inputs
        if made.op == "Mul":
            return [left, right], 1.0
        number = self._scalar(right)
        if made.op == "Div":
            return ([left], number) if number else ([], 1.0)
        return ([left] * int(number), 1.0) if number in (2, 3) else ([], 1.0)

    def _sums(self, name: str) -> Iterator[tuple[str, str]]:
        """Both orders of the operands of a sum."""
        made = self._makers.get(name)
        if made is not None and made.op == "Add":
            left, right = made.inputs
            yield left, right
            yield right, left

    def _scalar(self, name: str) -> float | None:
        value = self._graph.constants.get(name)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _near(number: float, expected: float) -> bool:
    # exporters write four digits of the roots; FP16 moves the constants by up to 1.6e-4
    return isclose(number, expected, rel_tol=2e-4)


def clip_bounds(graph: OnnxGraph, node: OnnxNode) -> tuple[float | None, float | None] | None:
    """Constant bounds of a Clip, ``None`` for an absent one; ``None`` where one is computed."""
    bounds: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        if node.opset < 11:
            value = node.attrs.get(name)
            bounds.append(None if value is None else float(value))
        elif not node.input(index):
            bounds.append(None)
        elif node.input(index) in graph.constants:
            bounds.append(float(graph.constants[node.input(index)].reshape(-1)[0]))
        else:
            return None
    return bounds[0], bounds[1]
