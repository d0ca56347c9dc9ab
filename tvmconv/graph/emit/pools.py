"""Pools of plain tensors, whose rows are contiguous."""

from __future__ import annotations

from math import prod

from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.operators import windows_of
from tvmconv.graph.ir import Node
from tvmconv.graph.rewrite.norm_pools import NORM_POOL
from tvmconv.machines.record import processor
from tvmconv.operators.plane_pool import MAX_TYPES, TYPES, plane_pool
from tvmconv.operators.pool import PoolWindow
from tvmconv.tvm_api.types import RelaxExpr

# order of a norm whose sums have a root
_EUCLIDEAN = 2
# kind, and the layouts of the images
_POOLS = {
    "nn.max_pool2d": ("max", ("NCHW",)),
    "nn.avg_pool2d": ("avg", ("NCHW",)),
    "nn.max_pool3d": ("max", ("NCDHW",)),
    "nn.avg_pool3d": ("avg", ("NCDHW",)),
    NORM_POOL: ("sum", ("NCHW", "NCDHW")),
}

# shape as (planes, H, W), and the windows along H and W
_Pass = tuple[tuple[int, ...], PoolWindow, PoolWindow]


def is_plane_pool(emitter: Emitter, node: Node) -> bool:
    """Whether a pool of plain tensors is computed axis by axis."""
    if node.op != "depth_pool" and node.op not in _POOLS:
        return False
    if node.op in _POOLS and node.attrs["layout"] not in _POOLS[node.op][1]:
        return False
    kind = node.attrs["kind"] if node.op == "depth_pool" else _POOLS[node.op][0]
    types = MAX_TYPES if kind == "max" else TYPES
    return emitter.machine.runs_along_axes and node.args[0].dtype in types


def emit_plane_pool(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """A pool over planes, and then over the depth of volumes.

    The mean of means is the mean, because each axis divides by its own count.
    """
    source = node.args[0]
    data, dims = emitter.as_plain(source), node.output.dims
    if node.op == "depth_pool":
        volumes = int(node.attrs["volumes"])
        shape: tuple[int, ...] = (volumes, source.dims[0] // volumes, prod(source.dims[1:]))
        passes: list[_Pass] = [(shape, PoolWindow(*node.attrs["window"]), PoolWindow(1))]
        kind = node.attrs["kind"]
    else:
        kind, _ = _POOLS[node.op]
        *depth, rows, columns = windows_of(node)
        passes = _passes(source.dims, dims, depth, (rows, columns))
    order = int(node.attrs.get("order", 0))
    for number, (shape, rows, columns) in enumerate(passes):
        power = 0 if number else order
        root = order == _EUCLIDEAN and number == len(passes) - 1
        data = _pool(emitter, node, record, data, shape, (rows, columns), kind, power, root)
    emitter.plain[node.output] = emitter.reshape(data, dims)


def _passes(
    size: tuple[int, ...],
    result: tuple[int, ...],
    depth: list[PoolWindow],
    plane: tuple[PoolWindow, PoolWindow],
) -> list[_Pass]:
    """Shape and windows of each pass; the pass that leaves less to the other one comes first."""
    if not depth or depth[0] == PoolWindow(1):
        return [((prod(size[:-2]), *size[-2:]), *plane)]
    depth_first = result[2] * prod(size[3:]) < size[2] * prod(result[3:])
    along = (prod(size[:2]), size[2], prod((size if depth_first else result)[3:]))
    across = (prod(size[:2]) * (result if depth_first else size)[2], *size[3:])
    passes: list[_Pass] = [(across, *plane), (along, depth[0], PoolWindow(1))]
    return passes[::-1] if depth_first else passes


def _pool(
    emitter: Emitter,
    node: Node,
    record: CallRecord,
    data: RelaxExpr,
    shape: tuple[int, ...],
    windows: tuple[PoolWindow, PoolWindow],
    kind: str,
    power: int,
    root: bool,
) -> RelaxExpr:
    """A call on ``(planes, H, W)``."""
    rows, columns = windows
    if rows == columns == PoolWindow(1) and not (power or root):
        return emitter.reshape(data, shape)
    if rows == PoolWindow(1):
        # no window spans several rows: treat all rows as rows of one plane
        shape = (1, shape[0] * shape[1], shape[2])
    lanes = emitter.lanes
    if node.args[0].dtype not in TYPES:
        # rows of images are short for whole vectors of bytes
        lanes = processor(emitter.machine).vector_bytes // 2
    counted = bool(node.attrs.get("count_include_pad", False))
    return emitter.call(
        lambda x: plane_pool(x, rows, columns, kind, lanes, counted, power, root),
        [emitter.reshape(data, shape)],
        record,
        opaque=True,
    )
