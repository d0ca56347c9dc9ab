"""Updates of caches."""

from __future__ import annotations

from math import prod

from tvmconv.frontend.convert.indices import along
from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.operators.cache_update import cache_update
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


@converts("TensorScatter", attrs="axis mode", inputs=2)
def tensor_scatter(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The cache with new rows along an axis; each batch has a first row of its own."""
    cache, update = (e.shape(name) for name in node.inputs[:2])
    axis, rank = int(node.attrs.get("axis", -2)), len(cache)
    axis %= rank
    mode = str(node.attrs.get("mode", "linear"))
    if mode not in ("linear", "circular"):
        raise node.error(f"mode={mode!r} is unknown", "use 'linear' or 'circular'")
    rest = [i for i in range(rank) if i != axis]
    fits = len(update) == rank and all(cache[i] == update[i] for i in rest)
    if not axis or not fits or update[axis] > cache[axis]:
        raise node.misfit(f"an update of shape {update} does not fit a cache of {cache}")
    indices = node.input(2)
    if indices and e.shape(indices) != cache[:1]:
        raise node.misfit(
            f"write_indices has shape {e.shape(indices)}, but the cache has {cache[0]} batches"
        )
    views = [
        e.emit(op.reshape(e.value(name), (n[0], prod(n[1:axis]), n[axis], prod(n[axis + 1 :]))))
        for name, n in zip(node.inputs[:2], (cache, update), strict=True)
    ]
    if not indices:
        first = op.zeros(cache[:1], "int64")
    elif mode == "circular":
        first = e.value(indices)
    else:
        places = along(e, node, 2, cache[axis] - update[axis] + 1, from_end=False)
        first = op.astype(places, "int64")
    made = e.builder.call_te(
        lambda a, b, c: cache_update(a, b, c, mode == "circular"),
        *views, e.emit(first, "first"), primfunc_name_hint="cache_update",
    )  # fmt: skip
    return op.reshape(e.emit(made, "updated"), cache)
