"""Ranges of integer attributes, checked before shape inference.

onnx's inference uses some of them unchecked (``LayerNormalization`` with a huge ``axis`` reads
outside the shape), so nothing beyond these ranges may reach it.
"""

from __future__ import annotations

from tvmconv.frontend.graph import Node
from tvmconv.frontend.limits import MAX_DIMENSION, MAX_RANK

_REMEDY = "correct the model and export it again"
_POSITIVE = ("blocksize", "group", "num_groups", "num_outputs", "p", "size")
# an output may have more axes than the input: Unsqueeze
_LISTS = ("axes", "perm")


def check_attributes(node: Node, rank: int) -> None:
    """Check the node's axes against the rank of its first input, and counts against zero."""
    if "axis" in node.attrs:
        axis = node.attrs["axis"]
        high = rank if node.op in ("Flatten", "OneHot") else max(rank, 1) - 1
        if not isinstance(axis, int) or not -max(rank, 1) <= axis <= high:
            raise node.error(f"axis={axis!r} is outside its input's rank {rank}", _REMEDY)
    for name in _LISTS:
        values = node.attrs.get(name, ())
        if not isinstance(values, tuple) or not all(
            isinstance(v, int) and -2 * MAX_RANK <= v < 2 * MAX_RANK for v in values
        ):
            raise node.error(f"{name}={str(values)[:80]} is out of range", _REMEDY)
    for name in _POSITIVE:
        value = node.attrs.get(name, 1)
        if not isinstance(value, int) or not 1 <= value <= MAX_DIMENSION:
            raise node.error(f"{name}={value!r} must be an integer of 1 or more", _REMEDY)
