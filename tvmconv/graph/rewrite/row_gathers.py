"""Recognizes gathers of whole rows and columns of images, such as padding by repeated elements.

One :data:`PICK` replaces the gathers along both axes and keeps the layout. Its attributes are the
indices of rows and columns, None for all.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.graph.ir import Graph, Node, Value, fused_node, make_node
from tvmconv.operators.picked_rows import runs_of

PICK = "tvmconv.pick"
_NAMES = {2: "rows", 3: "columns"}


def fuse_picks(graph: Graph) -> None:
    """Replace gathers along height or width by constant indices."""
    counts = graph.use_counts()
    for node in graph.nodes:
        if node.op != "take" or not node.output.is_map or not node.args[0].is_map:
            continue
        source, axis = node.args[0], node.attrs.get("axis")
        name = _NAMES.get(axis % 4) if isinstance(axis, int) else None
        numbers = _numbers(node)
        if name is None or numbers is None:
            continue
        attrs: dict[str, tuple[int, ...] | None] = {"rows": None, "columns": None}
        before = source.producer if counts[source] == 1 else None
        if before is not None and before.op == PICK and before.attrs[name] is None:
            source, attrs = before.args[0], dict(before.attrs)
        node.op, node.args, node.call = PICK, [source], None
        node.attrs = {**attrs, name: numbers}


def pick_along_rows(node: Node, _: dict[Value, Value]) -> list[Node]:
    """A gather along the last axis of another tensor, such as a signal, by constant indices.

    It is a copy of neighbors if the indices have few runs. Networks of signals and of volumes must
    be images by now.
    """
    if node.op != "take" or node.output.shape is None or node.output.is_map:
        return [node]
    dims, axis, numbers = node.args[0].dims, node.attrs.get("axis"), _numbers(node)
    if numbers is None or axis % len(dims) != len(dims) - 1 or runs_of(numbers) is None:
        return [node]
    shape, dtype = (1, 1, prod(dims[:-1])), node.output.dtype
    view = make_node("reshape", [node.args[0]], (*shape, dims[-1]), dtype=dtype)
    picked = make_node(
        PICK, [view.output], (*shape, len(numbers)), dtype=dtype, layer=node.layer,
        attrs={"rows": None, "columns": numbers},
    )  # fmt: skip
    return [view, picked, fused_node("reshape", [picked.output], node, node.layer, {})]


def _numbers(node: Node) -> tuple[int, ...] | None:
    """The constant indices of a gather along an axis; None if they vary, or are out of range."""
    source, indices, axis = node.args[0], node.const(1), node.attrs.get("axis")
    if source.is_const or not isinstance(axis, int) or indices is None or indices.ndim != 1:
        return None
    size = source.dims[axis % len(source.dims)]
    if indices.size == 0 or indices.min() < 0 or indices.max() >= size:
        return None
    return tuple(int(i) for i in np.asarray(indices))
