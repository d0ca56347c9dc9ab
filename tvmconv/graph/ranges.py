"""Bounds that hold for every element of a value, whatever finite numbers it was computed from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvmconv.graph.ir import Node, Value

Range = tuple[float, float]

UNKNOWN: Range = (-math.inf, math.inf)
# operators that are looked through; the bounds that matter lie close by
_DEPTH = 6


def value_range(value: Value, depth: int = _DEPTH) -> Range:
    """The least and the largest number that a value can hold.

    Parameters
    ----------
    value
        Of a graph whose activations are canonical.
    depth
        Producers that are followed.

    Returns
    -------
    tuple
        Infinite where nothing is known.
    """
    if value.data is not None:
        return _constant_range(value)
    made = value.producer
    rule = _RULES.get(made.op) if made is not None and depth else None
    if rule is None or made is None:
        return UNKNOWN
    return rule(made, [value_range(arg, depth - 1) for arg in made.inputs])


def _constant_range(value: Value) -> Range:
    data: Any = value.data
    if data.size == 0 or data.dtype.kind not in "fiu":
        return UNKNOWN
    low, high = float(data.min()), float(data.max())
    # one number for all, otherwise zeros fill the last block of channels
    return (low, high) if data.size == 1 else (min(low, 0.0), max(high, 0.0))


def _clip(node: Node, parts: list[Range]) -> Range:
    if "low" not in node.attrs:
        return UNKNOWN
    low, high = (min(max(end, node.attrs["low"]), node.attrs["high"]) for end in parts[0])
    return low, high


def _relu(_node: Node, parts: list[Range]) -> Range:
    return max(parts[0][0], 0.0), max(parts[0][1], 0.0)


def _absolute(_node: Node, parts: list[Range]) -> Range:
    low, high = parts[0]
    return max(low, -high, 0.0), max(-low, high)


def _negative(_node: Node, parts: list[Range]) -> Range:
    return -parts[0][1], -parts[0][0]


def _exp(_node: Node, parts: list[Range]) -> Range:
    low, high = (math.exp(min(end, 700.0)) for end in parts[0])
    return low, high if parts[0][1] < 700 else math.inf


def _log(_node: Node, parts: list[Range]) -> Range:
    low, high = parts[0]
    return (math.log(low), math.log(high)) if low > 0 else UNKNOWN


def _add(_node: Node, parts: list[Range]) -> Range:
    (low, high), (other_low, other_high) = parts
    return low + other_low, high + other_high


def _subtract(_node: Node, parts: list[Range]) -> Range:
    (low, high), (other_low, other_high) = parts
    return low - other_high, high - other_low


def _maximum(_node: Node, parts: list[Range]) -> Range:
    return max(parts[0][0], parts[1][0]), max(parts[0][1], parts[1][1])


def _minimum(_node: Node, parts: list[Range]) -> Range:
    return min(parts[0][0], parts[1][0]), min(parts[0][1], parts[1][1])


def _unit(_node: Node, _parts: list[Range]) -> Range:
    return 0.0, 1.0


def _signed_unit(_node: Node, _parts: list[Range]) -> Range:
    return -1.0, 1.0


_RULES: dict[str, Callable[[Node, list[Range]], Range]] = {
    "nn.relu": _relu,
    "clip": _clip,
    "sigmoid": _unit,
    "hardsigmoid": _unit,
    "tanh": _signed_unit,
    "erf": _signed_unit,
    "abs": _absolute,
    "negative": _negative,
    "exp": _exp,
    "log": _log,
    "add": _add,
    "subtract": _subtract,
    "maximum": _maximum,
    "minimum": _minimum,
}
