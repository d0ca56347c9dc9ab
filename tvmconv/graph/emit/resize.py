"""Resizing and sampling of plain images, whose rows are contiguous."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from tvmconv.graph.blockable import is_resized_by_axes
from tvmconv.graph.emit.emitter import CallRecord, Emitter, constant_of
from tvmconv.graph.emit.plain_moves import rows_of_columns
from tvmconv.graph.ir import Node
from tvmconv.machines.record import processor
from tvmconv.operators.grid_sample import plane_samples, row_samples
from tvmconv.operators.plane_resize import Tables, Taps, plane_resize
from tvmconv.operators.sample_places import Sampling
from tvmconv.tir.annotations import TRANSPOSE_LANES

# fewer channels leave most of a vector empty
_FEW_CHANNELS = 4
# elements of an image that are transposed in the time that one point of two pairs of columns saves
_USES = 2
_METHODS = ("nearest", "bilinear", "bicubic")


def is_plane_resize(emitter: Emitter, node: Node) -> bool:
    """Whether plain images are resized axis by axis."""
    return emitter.machine.runs_along_axes and is_resized_by_axes(node)


def emit_plane_resize(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """A resize of all planes."""
    source, dims = node.args[0], node.output.dims
    axes = zip(source.dims[2:], dims[2:], strict=True)
    if node.attrs["method"] == "linear":
        transform = node.attrs["coordinate_transformation_mode"]
        rows, columns = (Taps.linear(size, length, transform) for size, length in axes)
    else:
        rows, columns = (Taps.nearest(size, length) for size, length in axes)
    tables = Tables.of(rows, columns)
    planes = (prod(source.dims[:2]), *source.dims[2:])
    result = emitter.call(
        lambda x, integers, weights: plane_resize(x, integers, weights, tables, emitter.lanes),
        [
            emitter.reshape(emitter.as_plain(source), planes),
            constant_of(tables.integers, "int32"),
            constant_of(tables.weights, "float32"),
        ],
        record,
        opaque=True,
    )
    emitter.plain[node.output] = emitter.reshape(result, dims)


def is_plane_sample(emitter: Emitter, node: Node) -> bool:
    """Whether points of images are sampled by a function of this package."""
    if node.op != "image.grid_sample" or not emitter.machine.runs_along_axes:
        return False
    attrs = node.attrs
    if attrs["layout"] != "NCHW" or attrs["method"] not in _METHODS:
        return False
    if attrs["method"] == "nearest" and node.args[0].dims[1] == 1:
        # places are used once, so that TVM's function needs no pass of its own for them
        return False
    kinds = {value.dtype for value in (*node.args, node.output)}
    return kinds == {"float32"}


def _samples_rows(emitter: Emitter, node: Node, points: int) -> bool:
    """Whether channels are made neighbors, which are read together at each point.

    It saves most loads of pairs of columns. It saves nothing where one element is nearest, unless
    images come from a farther cache: a gather waits for each of its lines.
    """
    cpu, (batch, channels, height, width) = processor(emitter.machine), node.args[0].dims
    if cpu.vector.scalable or channels < _FEW_CHANNELS or points < emitter.lanes:
        return False
    if node.attrs["method"] != "nearest":
        return _USES * points >= height * width
    moved = 4 * batch * channels * (height * width + points)
    return points >= height * width and moved > cpu.l2_bytes


def emit_plane_sample(emitter: Emitter, node: Node, record: CallRecord) -> None:
    """Samples of all channels."""
    image, grid = node.args
    n, channels, height, width = image.dims
    points = prod(grid.dims[2:])
    attrs = node.attrs
    sampling = Sampling(
        size=(height, width),
        method=attrs["method"],
        padding=attrs["padding_mode"],
        align_corners=bool(attrs["align_corners"]),
    )
    data = emitter.as_plain(image)
    if _samples_rows(emitter, node, points):
        lanes = emitter.lanes
        sampled: Any = partial(
            row_samples, sampling=sampling, lanes=lanes, transposed=TRANSPOSE_LANES
        )
        data = rows_of_columns(emitter, node, data, (n, channels, height * width))
    else:
        sampled = partial(plane_samples, sampling=sampling, lanes=emitter.row_lanes)
        data = emitter.reshape(data, (n, channels, height * width))
    result = emitter.call(
        sampled,
        [data, emitter.reshape(emitter.as_plain(grid), (n, 2, points))],
        record,
        opaque=True,
    )
    emitter.plain[node.output] = emitter.reshape(result, node.output.dims)
