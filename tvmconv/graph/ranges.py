"""Bounds that hold for every element of a value computed from any finite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvmconv.graph.ir import Node, Value

Range = tuple[float, float]

UNKNOWN: Range = (-math.inf, math.inf)
# producers that are followed; bounds that matter are set by close producers
_DEPTH = 6


def value_range(value: Value, depth: int = _DEPTH) -> Range:
    """The minimum and the maximum of a value, infinite if unknown.

    Activations of the graph must be canonical.
    """
    if value.data is not None:
        return _constant_range(value)
    made = value.producer
    rule = _RULES.get(made.op) if made is not None and depth else None
    if rule is None or made is None:
        return UNKNOWN
    return rule(made, *(value_range(arg, depth - 1) for arg in made.inputs))


def _constant_range(value: Value) -> Range:
    data: Any = value.data
    if data.size == 0 or data.dtype.kind not in "fiu":
        return UNKNOWN
    low, high = float(data.min()), float(data.max())
    # zeros pad the last block of channels, unless the constant has one element
    return (low, high) if data.size == 1 else (min(low, 0.0), max(high, 0.0))


def _clip(node: Node, x: Range) -> Range:
    if "low" not in node.attrs:
        return UNKNOWN
    low, high = (min(max(end, node.attrs["low"]), node.attrs["high"]) for end in x)
    return low, high


def _exp(_node: Node, x: Range) -> Range:
    low, high = (math.exp(min(end, 700.0)) for end in x)
    return low, high if x[1] < 700 else math.inf


def _log(_node: Node, x: Range) -> Range:
    return (math.log(x[0]), math.log(x[1])) if x[0] > 0 else UNKNOWN


_RULES: dict[str, Callable[..., Range]] = {
    "nn.relu": lambda _, x: (max(x[0], 0.0), max(x[1], 0.0)),
    "clip": _clip,
    "sigmoid": lambda *_: (0.0, 1.0),
    "hardsigmoid": lambda *_: (0.0, 1.0),
    "tanh": lambda *_: (-1.0, 1.0),
    "erf": lambda *_: (-1.0, 1.0),
    "abs": lambda _, x: (max(x[0], -x[1], 0.0), max(-x[0], x[1])),
    "negative": lambda _, x: (-x[1], -x[0]),
    "exp": _exp,
    "log": _log,
    "add": lambda _, a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda _, a, b: (a[0] - b[1], a[1] - b[0]),
    "maximum": lambda _, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda _, a, b: (min(a[0], b[0]), min(a[1], b[1])),
}
