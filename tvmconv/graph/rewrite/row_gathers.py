"""Recognizes gathers of whole rows and columns of images, such as padding by repeated elements.

One :data:`PICK` replaces the gathers along both axes and keeps the layout. Its attributes are the
indices of rows and columns, None for all.
"""

from __future__ import annotations

import numpy as np

from tvmconv.graph.ir import Graph

PICK = "tvmconv.pick"
_NAMES = {2: "rows", 3: "columns"}


def fuse_picks(graph: Graph) -> None:
    """Replace gathers along height or width by constant indices."""
    counts = graph.use_counts()
    for node in graph.nodes:
        if node.op != "take" or not node.output.is_map or not node.args[0].is_map:
            continue
        source, indices = node.args[0], node.const(1)
        axis = node.attrs.get("axis")
        name = _NAMES.get(axis % 4) if isinstance(axis, int) else None
        if source.is_const or name is None or indices is None or indices.ndim != 1:
            continue
        size = source.dims[2 if name == "rows" else 3]
        if indices.size == 0 or indices.min() < 0 or indices.max() >= size:
            continue
        numbers = tuple(int(i) for i in np.asarray(indices))
        attrs: dict[str, tuple[int, ...] | None] = {"rows": None, "columns": None}
        before = source.producer if counts[source] == 1 else None
        if before is not None and before.op == PICK and before.attrs[name] is None:
            source, attrs = before.args[0], dict(before.attrs)
        node.op, node.args, node.call = PICK, [source], None
        node.attrs = {**attrs, name: numbers}
