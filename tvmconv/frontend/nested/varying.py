"""Sizes that depend on the data, as operands and results of nested graphs.

The two branches of an If may give results of different sizes. The outer value has the larger size,
and each branch gives the actual size as one more result. A branch of a fixed size gives a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.cut import cut_text
from tvmconv.frontend.graph import Extent, OnnxGraph, OnnxNode
from tvmconv.frontend.nested.inline import Walk, error

if TYPE_CHECKING:
    import onnx

# operator set of the nodes that are added: Pad with an operand
_OPSET = 13


def check_fixed(walk: Walk, proto: onnx.NodeProto, names: Iterable[str]) -> None:
    """Refuse operands of a loop whose size depends on the data."""
    extents = walk.graph.extents
    for name in names:
        if name in extents:
            raise error(
                proto,
                f"the size of its operand {name!r} along axis {extents[name].axis} depends on the "
                "data. Expected a fixed size, because the loop runs as a program of its own",
                f"end the model before it by {cut_text([name])}",
            )


def check_results(graph: OnnxGraph) -> None:
    """Refuse results of a loop's body whose size depends on the data."""
    for info in graph.outputs:
        if info.name in graph.extents:
            raise ModelError(
                f"sub-graph {graph.name!r}: the size of its result {info.name!r} depends on the "
                "data, and the sub-graph runs in a loop. Expected a fixed size. Cut the model "
                "before the loop by --outputs."
            )


@dataclass(frozen=True)
class _Result:
    """A result of two branches: its largest shape, and the axis along which its size varies.

    ``axis`` is None if the size is fixed. ``size`` is an outer value that says the size in both
    branches; if it is empty, each branch gives its own.
    """

    shape: tuple[int, ...]
    axis: int | None = None
    size: str = ""


def join_results(
    walk: Walk, proto: onnx.NodeProto, then: OnnxGraph, other: OnnxGraph, names: Sequence[str]
) -> tuple[str, ...]:
    """Give two branches results of one shape each; gives the outer names of all results.

    ``names`` are outer names of the results that the branches have before.
    """
    graph, fresh = walk.graph, walk.shared.fresh
    pairs = list(zip(then.outputs, other.outputs, strict=True))
    found = []
    for name, (left, right) in zip(names, pairs, strict=True):
        result = _joined(then, other, left, right)
        if result is None:
            raise error(
                proto,
                f"its result {name!r} is {left.dtype}{list(left.shape)} in the first branch "
                f"({left.name!r}) and {right.dtype}{list(right.shape)} in the second "
                f"({right.name!r}). Expected results of one type and rank, and of different sizes "
                f"along one axis at most, because the condition {proto.input[0]!r} is computed at "
                "run time",
                "make the condition a constant, or both results alike",
            )
        found.append(result)
    sizes: dict[int, str] = {}
    for place, (name, result) in enumerate(zip(names, found, strict=True)):
        if result.axis is not None:
            value = result.size or sizes.setdefault(place, fresh(f"{name}.size"))
            graph.extents[name] = Extent(result.axis, value)
    for branch in (then, other):
        measured = [_size(walk, branch, branch.outputs[place], found[place]) for place in sizes]
        largest = [
            _padded(walk, branch, info, result)
            for info, result in zip(branch.outputs, found, strict=True)
        ]
        branch.outputs = (*largest, *measured)
    results = (*names, *sizes.values())
    for name, info in zip(results, then.outputs, strict=True):
        graph.types[name] = TensorInfo(name, info.shape, info.dtype)
    return results


def _joined(
    then: OnnxGraph, other: OnnxGraph, left: TensorInfo, right: TensorInfo
) -> _Result | None:
    """The common shape of two results; None if their shapes differ along several axes."""
    if left.dtype != right.dtype or len(left.shape) != len(right.shape):
        return None
    extents = (then.extents.get(left.name), other.extents.get(right.name))
    sizes = list(zip(left.shape, right.shape, strict=True))
    axes = {axis for axis, (one, two) in enumerate(sizes) if one != two}
    outer = {info.name for info in then.inputs}
    if not axes and extents[0] and extents[0] == extents[1] and extents[0].value in outer:
        return _Result(left.shape, extents[0].axis, extents[0].value)
    axes |= {extent.axis for extent in extents if extent}
    if len(axes) > 1:
        return None
    return _Result(tuple(map(max, sizes)), next(iter(axes), None))


def _size(walk: Walk, branch: OnnxGraph, info: TensorInfo, result: _Result) -> TensorInfo:
    """The size of a branch's result, as a value of the branch."""
    if extent := branch.extents.get(info.name):
        return branch.types[extent.value]
    assert result.axis is not None
    size = np.asarray([info.shape[result.axis]], np.int64)
    name = branch.add_constant(walk.shared.fresh(f"{info.name}.size"), size)
    return branch.types[name]


def _padded(walk: Walk, branch: OnnxGraph, info: TensorInfo, result: _Result) -> TensorInfo:
    """A branch's result in its largest shape."""
    if info.shape == result.shape:
        return info
    name = walk.shared.fresh(info.name)
    missing = [most - size for size, most in zip(info.shape, result.shape, strict=True)]
    if info.name in branch.constants:
        value = np.pad(branch.constants[info.name], [(0, after) for after in missing])
        return branch.types[branch.add_constant(name, value)]
    pads = branch.add_constant(
        walk.shared.fresh(f"{name}.pads"), np.array([0] * len(missing) + missing)
    )
    made = TensorInfo(name, result.shape, info.dtype)
    branch.add_node(OnnxNode(name, "Pad", (info.name, pads), (name,), {}, _OPSET), [made])
    return made
