"""Ranges of integer attributes, checked before shape inference.

onnx's inference uses some of them unchecked (``LayerNormalization`` with a huge ``axis`` reads
outside the shape), so nothing beyond these ranges may reach it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.limits import MAX_DIMENSION, MAX_RANK

_POSITIVE = ("blocksize", "group", "num_groups", "num_outputs", "p", "size")
_FACTORS = ("alpha", "beta", "bias", "epsilon", "gamma", "lambd")
_FLAGS = (
    *("align_corners", "allowzero", "antialias", "ceil_mode", "count_include_pad"),
    *("exclude_outside", "exclusive", "fmod", "keepdims", "largest", "noop_with_empty_axes"),
    *("reverse", "select_last_index", "sorted", "training_mode", "transA", "transB", "upper"),
)
# onnx's inference does not return from other characters
_EQUATION = re.compile(r"([A-Za-z ,]|\.\.\.)*(->([A-Za-z ]|\.\.\.)*)?")
# an output may have more axes than the input: Unsqueeze
_LISTS = ("axes", "perm")

# operators whose negative axes onnx does not infer before operator set 11
_COUNTED = ("Concat", "Slice")


def counted_from_start(node: OnnxNode, rank: int) -> OnnxNode:
    """The node; negative axes of an old operator set count from the start.

    Exporters write them, although these operator sets do not define them. For negative axes, onnx
    infers no shapes.
    """
    if node.op not in _COUNTED or node.opset >= 11:
        return node

    def counted(axis: Any) -> Any:
        return axis + rank if isinstance(axis, int) and -rank <= axis < 0 else axis

    attrs = dict(node.attrs)
    if "axis" in attrs:
        attrs["axis"] = counted(attrs["axis"])
    if isinstance(attrs.get("axes"), tuple):
        attrs["axes"] = tuple(map(counted, attrs["axes"]))
    return node if attrs == node.attrs else replace(node, attrs=attrs)


def in_ascending_order(node: OnnxNode) -> OnnxNode:
    """The node; a Slice or Squeeze of an old operator set gets ascending axes.

    For other orders of axes, onnx infers no shapes, or wrong shapes.
    """
    if node.op not in ("Slice", "Squeeze") or node.opset >= 11:
        return node
    lists: dict[str, tuple[Any, ...]] = {
        name: values
        for name in ("axes", "starts", "ends")
        if isinstance(values := node.attrs.get(name), tuple)
    }
    axes = lists.get("axes", ())
    known = all(isinstance(axis, int) and axis >= 0 for axis in axes)
    if not known or any(len(values) != len(axes) for values in lists.values()):
        # a later check reports it
        return node
    order = sorted(range(len(axes)), key=axes.__getitem__)
    if order == [*range(len(axes))]:
        return node
    ordered = {name: tuple(values[i] for i in order) for name, values in lists.items()}
    return replace(node, attrs={**node.attrs, **ordered})


def check_attributes(node: OnnxNode, rank: int) -> None:
    """Check the node's axes against the rank of its first input, and counts against zero."""
    if "axis" in node.attrs:
        axis = node.attrs["axis"]
        # OneHot counts the axes of its output, which has one more
        low = -rank - 1 if node.op == "OneHot" else -max(rank, 1)
        high = rank if node.op in ("Flatten", "OneHot") else max(rank, 1) - 1
        if not isinstance(axis, int) or not low <= axis <= high:
            raise node.error(f"axis={axis!r} is outside its input's rank {rank}")
    for name in _LISTS:
        values = node.attrs.get(name, ())
        if not isinstance(values, tuple) or not all(
            isinstance(v, int) and -2 * MAX_RANK <= v < 2 * MAX_RANK for v in values
        ):
            raise node.error(f"{name}={str(values)[:80]} is out of range")
    _check_lengths(node, rank)
    for name in _POSITIVE:
        value = node.attrs.get(name, 1)
        if not isinstance(value, int) or not 1 <= value <= MAX_DIMENSION:
            raise node.error(f"{name}={value!r} must be an integer of 1 or more")
    for name in _FACTORS:
        if not isinstance(factor := node.attrs.get(name, 0.0), int | float) or not isfinite(factor):
            raise node.error(f"{name}={str(factor)[:80]} must be a finite number")
    if node.op == "Einsum" and not _EQUATION.fullmatch(str(node.attrs.get("equation", ""))):
        raise node.error(
            f"equation={str(node.attrs.get('equation'))[:80]!r} is not letters, commas, '...' "
            "and one '->'"
        )
    for name in _FLAGS:
        if (flag := node.attrs.get(name, 0)) not in (0, 1):
            raise node.error(f"{name}={str(flag)[:80]} must be 0 or 1")


def _check_lengths(node: OnnxNode, rank: int) -> None:
    lengths = {
        "Pad": {"pads": 2 * rank, "paddings": 2 * rank},
        "Split": {"split": len(node.outputs)},
        "Transpose": {"perm": rank},
        "Upsample": {"scales": rank},
    }
    if node.op == "Slice" and "starts" in node.attrs:
        count = len(node.attrs["starts"])
        lengths["Slice"] = {"ends": count, "axes": count}
    for name, length in lengths.get(node.op, {}).items():
        values = node.attrs.get(name)
        if values is not None and (not isinstance(values, tuple) or len(values) != length):
            raise node.error(f"{name}={str(values)[:80]} must have {length} values")


def check_list_operands(node: OnnxNode, rank: int, operands: Mapping[str, Array]) -> None:
    """Check the lengths of constant operands that list one value an axis or an output."""

    def size(index: int) -> int | None:
        value = operands.get(node.input(index))
        return None if value is None else int(value.size)

    expected: dict[int, int] = {}
    if node.op == "Split":
        expected[1] = len(node.outputs)
    elif node.op == "Clip":
        expected = {1: 1, 2: 1}
    elif node.op == "Tile":
        expected[1] = rank
    elif node.op == "Slice" and size(1) is not None:
        expected = dict.fromkeys((2, 3, 4), size(1) or 0)
    elif node.op == "Pad":
        axes = size(3)
        expected[1] = 2 * (rank if axes is None else axes)
    elif node.op in ("Resize", "Upsample"):
        axes = len(node.attrs.get("axes", ())) or rank
        expected = {2: axes, 3: axes} if node.op == "Resize" and node.opset > 10 else {1: axes}
    for index, length in expected.items():
        actual = size(index)
        optional = node.op == "Resize" and actual == 0
        if actual is not None and actual != length and not optional:
            raise node.error(
                f"input {index} ({node.input(index)!r}) has {actual} values, not {length}"
            )
