"""Recognizes the norm of each window, as LpPool has it, in several operators.

The separate operators are three passes over images: powers, means of windows, and roots of scaled
means. :data:`NORM_POOL` has the operand and the attributes of the mean over windows, and

``order``
    1 for the sum of the magnitudes, 2 for the root of the sum of the squares.
"""

from __future__ import annotations

from math import prod

from tvmconv.graph.ir import Graph, Node, made_by
from tvmconv.graph.rewrite.fold import scalar
from tvmconv.operators.plane_pool import TYPES

NORM_POOL = "norm_pool"


def fuse_norm_pools(graph: Graph) -> None:
    """Replace the last node of each pattern; other nodes without readers become dead."""
    for node in graph.nodes:
        root = node.op == "sqrt"
        total = made_by(node.args[0], "multiply") if root else node
        if total is not None and total.op == "multiply":
            _fuse(node, total, order=2 if root else 1)


def _fuse(node: Node, total: Node, order: int) -> None:
    """Make ``node`` a norm of windows if ``total`` are sums of powers of this order."""
    for mean, factor in (total.args, total.args[::-1]):
        pooled = made_by(mean, "nn.avg_pool2d") or made_by(mean, "nn.avg_pool3d")
        if pooled is None or scalar(factor) != prod(int(n) for n in pooled.attrs["pool_size"]):
            continue
        powers = made_by(pooled.args[0], "multiply" if order == 2 else "abs")
        attrs = pooled.attrs
        if powers is None or powers.args[0] is not powers.args[-1]:
            return
        if (
            attrs["layout"] not in ("NCHW", "NCDHW")
            or not attrs["count_include_pad"]
            or attrs["ceil_mode"]
        ):
            return
        source = powers.args[0]
        if source.shape is not None and source.dtype in TYPES:
            node.op, node.args, node.call = NORM_POOL, [source], None
            node.attrs = {**attrs, "order": order}
        return
