"""Operators on blocks that only move elements: join, cut, pad, transpose, repeat, interleave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmconv.core.datatypes import itemsize
from tvmconv.graph.blockable import is_channels_first, slice_ranges, split_ranges
from tvmconv.graph.emit.emitter import (
    CallRecord,
    Emitter,
    Rule,
    constant_of,
    emit_single,
    record_of,
)
from tvmconv.graph.ir import Node, Value
from tvmconv.graph.rewrite.row_gathers import PICK
from tvmconv.operators.channels import (
    concat_channels,
    pad_blocked,
    pick,
    shuffle_channels,
    slice_blocked,
)
from tvmconv.operators.interleave import depth_to_space, interleaved
from tvmconv.operators.picked_rows import picked_rows, runs_of
from tvmconv.program.joins import JOIN, PART
from tvmconv.tvm_api import relax, te
from tvmconv.tvm_api.op_pattern import INJECTIVE
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor


def _concat(emitter: Emitter, node: Node) -> None:
    parts = [emitter.as_blocked(value) for value in node.inputs]
    axis = node.attrs["axis"] % 4
    if axis == 1:
        counts = [value.dims[1] for value in node.inputs]
        attrs = {JOIN: 1} if _in_blocks(emitter, node.output, counts[:-1]) else {}
        result = emitter.call(
            lambda *xs: concat_channels(xs, counts),
            parts,
            record_of(node),
            attrs=attrs,
            opaque=bool(attrs),
        )
    else:
        result = emitter.bind(relax.op.concat(parts, axis=axis), record_of(node))
    emitter.set_blocked(node.output, result)


def _cut(emitter: Emitter, node: Node, result: Value, ranges: list[tuple[int, int, int]]) -> None:
    channels = (ranges[1][0], ranges[1][0] + ranges[1][1])

    def expression(x: Tensor) -> Tensor:
        return slice_blocked(x, channels, ranges[2], ranges[3])

    args, attrs = [emitter.as_blocked(node.args[0])], dict[str, int]()
    height, width = node.args[0].dims[2:]
    full = ranges[2:] == [(0, height, 1), (0, width, 1)]
    if full and _in_blocks(emitter, node.args[0], channels[:1]):
        attrs = {PART: itemsize(result.dtype) * channels[0] * height * width}
    part = emitter.call(expression, args, record_of(node), attrs=attrs, opaque=bool(attrs))
    emitter.set_blocked(result, part)


def _in_blocks(emitter: Emitter, whole: Value, channels: Sequence[int]) -> bool:
    """Whether parts with so many channels, except the last part, may share a tensor's memory."""
    full = all(count % emitter.lanes == 0 for count in channels)
    return emitter.shares and whole.dims[0] == 1 and full


def _split(emitter: Emitter, node: Node) -> None:
    for result in node.outputs:
        _cut(emitter, node, result, split_ranges(node, result))


def _slice(emitter: Emitter, node: Node) -> None:
    ranges = slice_ranges(node)
    assert ranges is not None
    _cut(emitter, node, node.output, ranges)


def _pad(emitter: Emitter, node: Node) -> None:
    top, bottom, left, right = node.attrs["pad_width"][4:]
    value = float(node.attrs.get("pad_value") or 0.0)
    emit_single(
        emitter, node, lambda x: pad_blocked(x, top, left, bottom, right, value), opaque=False
    )


def _permute(emitter: Emitter, node: Node) -> None:
    if is_channels_first(node, emitter.lanes):
        emitter.set_blocked(node.output, _blocks_of_rows(emitter, node))
        return
    axes = (*node.attrs["axes"], 4)

    def expression(x: Tensor) -> Tensor:
        shape = [x.shape[axis] for axis in axes]

        def element(*index: Expr) -> Expr:
            return x[tuple(index[axes.index(axis)] for axis in range(5))]

        return te.compute(shape, element, name="permute_dims")

    emit_single(emitter, node, expression, opaque=False)


def _blocks_of_rows(emitter: Emitter, node: Node) -> RelaxExpr:
    """The blocks of an image (N, H, W, C)."""
    n, channels, height, width = node.output.dims
    shape = (n, height, width, channels // emitter.lanes, emitter.lanes)
    view = emitter.reshape(emitter.as_plain(node.args[0]), shape)
    emitter.reorders += 1
    return emitter.bind(relax.op.permute_dims(view, (0, 3, 1, 2, 4)), record_of(node))


def rows_of_blocks(emitter: Emitter, node: Node) -> RelaxExpr:
    """An image (N, H, W, C) of blocks of channels."""
    emitter.reorders += 1
    blocks, lanes = emitter.as_blocked(node.args[0]), emitter.lanes
    if node.output.dims[3] % lanes:

        def expression(x: Tensor) -> Tensor:
            return te.compute(
                node.output.dims,
                lambda n, h, w, c: x[n, c // lanes, h, w, c % lanes],
                name="permute_dims",
            )

        return emitter.call(expression, [blocks], record_of(node), opaque=True)
    rows = emitter.bind(relax.op.permute_dims(blocks, (0, 2, 3, 1, 4)), record_of(node))
    return emitter.reshape(rows, node.output.dims, node.layer)


def picked(emitter: Emitter, node: Node, data: RelaxExpr, record: CallRecord) -> RelaxExpr:
    """Rows and columns of images in either layout, by constant numbers."""
    chosen = [node.attrs["rows"], node.attrs["columns"]]
    numbers = [constant_of(np.array(part, np.int32), "int32") for part in chosen if part]

    def expression(x: Tensor, *indices: Tensor) -> Tensor:
        given = iter(indices)
        return pick(x, *(next(given) if part else None for part in chosen))

    # TVM assumes that operators with indices from memory cannot be merged
    return emitter.call(expression, [data, *numbers], record, attrs={"op_pattern": INJECTIVE})


def picked_plain(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """Rows and columns of plain images; neighboring columns are copied by vectors."""
    data, dims = emitter.as_plain(node.args[0]), node.output.dims
    rows, columns = node.attrs["rows"], node.attrs["columns"]
    # whole rows are vectors, which may be merged with other operators
    runs = runs_of(columns) if columns else None
    if runs is None or not emitter.machine.runs_along_axes or node.output.dtype == "bool":
        return picked(emitter, node, data, record)
    view = emitter.reshape(data, (dims[0] * dims[1], *node.args[0].dims[2:]))
    numbers = [] if rows is None else [constant_of(np.array(rows, np.int32), "int32")]

    def expression(x: Tensor, *indices: Tensor) -> Tensor:
        return picked_rows(x, indices[0] if indices else None, runs, emitter.lanes)

    result = emitter.call(expression, [view, *numbers], record, opaque=True)
    return emitter.reshape(result, dims, node.layer)


def _pick(emitter: Emitter, node: Node) -> None:
    result = picked(emitter, node, emitter.as_blocked(node.args[0]), record_of(node))
    emitter.set_blocked(node.output, result)


def _shuffle(emitter: Emitter, node: Node) -> None:
    channels, groups = node.output.dims[1], node.attrs["groups"]
    emit_single(emitter, node, lambda x: shuffle_channels(x, channels, groups), opaque=False)


def _depth_to_space(emitter: Emitter, node: Node) -> None:
    batch, channels, height, width = node.output.dims
    if node in emitter.plan.leaving:
        attrs, data = node.attrs, emitter.as_blocked(node.args[0])
        block, order = attrs["block"], (attrs["inner"], attrs["stride"], attrs.get("depth"))
        split = emitter.call(
            lambda x: interleaved(x, channels, block, *order), [data], record_of(node), opaque=True
        )
        emitter.plain[node.output] = emitter.reshape(split, (batch, channels, height, width))
        return

    def expression(x: Tensor) -> Tensor:
        return depth_to_space(x, channels, (height, width), **node.attrs)

    emit_single(emitter, node, expression, opaque=False)


MOVES: dict[str, Rule] = {
    "concat": _concat,
    "split": _split,
    "strided_slice": _slice,
    "nn.pad": _pad,
    "permute_dims": _permute,
    PICK: _pick,
    "channel_shuffle": _shuffle,
    "depth_to_space": _depth_to_space,
}
