"""Operators on the plain layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import numpy_type
from tvmconv.graph.blockable import is_channels_last
from tvmconv.graph.emit.attention import emit_attention
from tvmconv.graph.emit.emitter import EXTREMES, CallRecord, Emitter, extreme
from tvmconv.graph.emit.indices import CALLS, emit_without_loops
from tvmconv.graph.emit.moves import picked_plain, rows_of_blocks
from tvmconv.graph.emit.operators import average, depth_pool
from tvmconv.graph.emit.plain_moves import (
    depth_to_space_plain,
    row_transposition,
    rows_of_columns,
    shuffle_plain,
    transposes_rows,
)
from tvmconv.graph.emit.pools import emit_plane_pool, is_plane_pool
from tvmconv.graph.emit.positions import POSITIONS, emit_position, repeats_position
from tvmconv.graph.emit.quantized import (
    emit_byte_product,
    emit_flip,
    emit_linear,
    emit_lookup,
    is_linear,
)
from tvmconv.graph.emit.recurrent import emit_recurrent, is_recurrent
from tvmconv.graph.emit.resize import (
    emit_plane_resize,
    emit_plane_sample,
    is_plane_resize,
    is_plane_sample,
)
from tvmconv.graph.emit.sorting import check_length, emit_top_k
from tvmconv.graph.emit.statistics import emit_extrema, standardize_plain
from tvmconv.graph.ir import Node
from tvmconv.graph.quantized.byte_products import BYTE_PRODUCT
from tvmconv.graph.quantized.scales import AVERAGE, FLIP, TABLE
from tvmconv.graph.rewrite.attention import ATTENTION
from tvmconv.graph.rewrite.extrema import EXTREMA
from tvmconv.graph.rewrite.reversed_sums import REVERSE
from tvmconv.graph.rewrite.row_gathers import PICK
from tvmconv.graph.rewrite.statistics import STANDARDIZE
from tvmconv.graph.rewrite.tokens import axes_of
from tvmconv.graph.rewrite.transposed_operands import PRODUCT
from tvmconv.graph.scalars import map_tensor, scalar_expression
from tvmconv.machines.record import processor
from tvmconv.operators import all_pairs
from tvmconv.operators.double_angles import double_angles
from tvmconv.operators.lrn import lrn
from tvmconv.operators.matmul import matmul
from tvmconv.operators.remainder import remainder
from tvmconv.operators.scan import running_total
from tvmconv.operators.softmax import log_softmax, softmax
from tvmconv.operators.softmax_rows import softmax_rows
from tvmconv.operators.softmax_short_rows import are_few_columns, softmax_short_rows
from tvmconv.tvm_api import relax, topi
from tvmconv.tvm_api.types import RelaxExpr, Tensor

# shorter rows of a softmax, if they are few, are computed side by side
_SHORT_ROW = 8
# shorter columns of a softmax stay columns
_LONG_ROW = 64
# so few neighbors leave most of a vector empty
_FEW_COLUMNS = 7
_ANGLES = ("sin", "cos", "tan")


def emit_plain(emitter: Emitter, node: Node) -> None:
    """A node on plain tensors: by a function of this package, or as the Relax call it was."""
    record = CallRecord(node.layer, _operator(node))
    function = scalar_expression(node)
    if node.op == "reshape":
        return  # emitted before the first use of its result, see Emitter.as_plain
    if function is not None:
        _call(emitter, node, lambda x: map_tensor(x, function, record.operator), record)
    elif node.op in ("nn.softmax", "nn.log_softmax") and node.output.dtype == "float32":
        emitter.plain[node.output] = _softmax(emitter, node, record)
    elif is_channels_last(node) and emitter.has_blocks_only(node.args[0]):
        emitter.plain[node.output] = rows_of_blocks(emitter, node)
    elif transposes_rows(node) and emitter.machine.runs_along_axes:
        axes = axes_of(node)
        _call(emitter, node, lambda x: topi.transpose(x, axes), record, opaque=True)
    elif node.op == STANDARDIZE:
        standardize_plain(emitter, node)
    elif node.op == EXTREMA:
        emit_extrema(emitter, node)
    elif node.op == PICK:
        emitter.plain[node.output] = picked_plain(emitter, node, record)
    elif node.op == PRODUCT:
        axes = node.attrs["axes"]
        record = CallRecord(node.layer, "matmul")
        _call(emitter, node, lambda a, b: matmul(a, b, axes), record)
    elif node.op == BYTE_PRODUCT:
        emit_byte_product(emitter, node)
    elif node.op == ATTENTION:
        emit_attention(emitter, node)
    elif is_recurrent(node):
        emit_recurrent(emitter, node)
    elif node.op == "lrn":
        _call(emitter, node, lambda x: lrn(x, **node.attrs), record, opaque=True)
    elif is_plane_pool(emitter, node):
        emit_plane_pool(emitter, node, record)
    elif is_plane_resize(emitter, node):
        emit_plane_resize(emitter, node, record)
    elif is_plane_sample(emitter, node):
        emit_plane_sample(emitter, node, record)
    elif node.op == "depth_pool":
        data, image = emitter.as_plain(node.args[0]), node.output.dims[1:]
        emitter.plain[node.output] = depth_pool(emitter, node, data, image, 1)
    elif node.op == "channel_shuffle":
        shuffle_plain(emitter, node, record)
    elif node.op == "depth_to_space":
        depth_to_space_plain(emitter, node, record)
    elif node.op in EXTREMES and node.output.dtype.startswith("float"):
        left, right = (emitter.expression_of(arg) for arg in node.args)
        result = extreme(emitter.builder, node.op, left, right)
        emitter.plain[node.output] = emitter.bind(result, record)
    elif repeats_position(node):
        emitter.plain[node.output] = emitter.as_plain(node.args[0])
    elif node.op in POSITIONS:
        emitter.plain[node.output] = emit_position(emitter, node, record)
    elif node.op == "mod" and node.output.dtype == "float32" and emitter.machine.runs_along_axes:
        emitter.plain[node.output] = _remainder(emitter, node, record)
    elif node.op in _ANGLES and node.output.dtype == "float64" and emitter.machine.runs_along_axes:
        emitter.plain[node.output] = _angles(emitter, node, record)
    elif node.op in ("cumsum", "cumprod"):
        emitter.plain[node.output] = _running_sum(emitter, node, record)
    elif node.op == "topk":
        emit_top_k(emitter, node, record)
    elif node.op == AVERAGE:
        # a plain image is one of blocks of one channel
        view = emitter.reshape(emitter.as_plain(node.args[0]), (*node.args[0].dims, 1))
        blocked = average(emitter, node, view, node.output.dims[1])
        emitter.plain[node.output] = emitter.reshape(blocked, node.output.dims)
    elif node.op == FLIP:
        emit_flip(emitter, node, blocked=False)
    elif node.op == TABLE:
        emit_lookup(emitter, node, blocked=False)
    elif is_linear(node):
        emit_linear(emitter, node, blocked=False)
    elif emit_without_loops(emitter, node, record):
        return
    elif node.call is not None:
        emitter.give(node, emitter.bind(emitter.original(node), record), record)
    else:
        emitter.plain[node.output] = emitter.bind(_rebuilt(emitter, node), record)


def _operator(node: Node) -> str:
    """The name of a node's operator in reports; a function has a number after its name."""
    if node.op in CALLS:
        return str(node.args[0].name_hint).rstrip("0123456789")
    return node.op.removeprefix("nn.")


def _softmax(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """Softmax or its logarithm."""
    data, logarithm = emitter.as_plain(node.inputs[0]), node.op == "nn.log_softmax"
    shape = node.output.dims
    axis = node.attrs["axis"] % len(shape)
    outer, size, columns = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    lanes = emitter.row_lanes
    if lanes and are_few_columns(outer, size, columns, lanes):
        short = partial(
            softmax_short_rows,
            columns=columns,
            lanes=lanes,
            logarithm=logarithm,
            transposed=row_transposition(size * columns),
        )
        view = emitter.reshape(data, (outer, size * columns))
        return emitter.reshape(emitter.call(short, [view], record, opaque=True), shape)
    shortest = _SHORT_ROW if columns == 1 else _LONG_ROW
    if lanes and columns <= _FEW_COLUMNS and size > shortest:
        loops = partial(softmax_rows, lanes=lanes, logarithm=logarithm)
        view = rows_of_columns(emitter, node, data, (outer, size, columns))
        view = emitter.reshape(view, (outer * columns, size))
        result = emitter.call(loops, [view], record, opaque=True)
        result = rows_of_columns(emitter, node, result, (outer, columns, size))
        return emitter.reshape(result, shape)
    normalize = log_softmax if logarithm else softmax
    return emitter.call(lambda x: normalize(x, axis), [data], record, opaque=True)


def _remainder(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """Remainders by vectors; the operands have the result's shape, or one element."""
    dims, operands = node.output.dims, []
    for arg in node.args:
        data = emitter.expression_of(arg)
        shape = tuple(int(size) for size in data.ty.shape)
        if prod(shape) != 1 and shape != dims:
            data = emitter.call(lambda x: topi.broadcast_to(x, dims), [data], record)
            shape = dims
        operands.append(emitter.reshape(data, (prod(shape),)))
    lanes = emitter.lanes
    result = emitter.call(lambda a, b: remainder(a, b, lanes), operands, record, opaque=True)
    return emitter.reshape(result, dims)


def _angles(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """Functions of angles in float64, whose far angles no expression reduces."""
    dims, lanes = node.output.dims, processor(emitter.machine).vector_bytes // 8
    flat = emitter.reshape(emitter.as_plain(node.inputs[0]), (prod(dims),))
    found = emitter.call(lambda x: double_angles(x, node.op, lanes), [flat], record, opaque=True)
    return emitter.reshape(found, dims)


def _running_sum(emitter: Emitter, node: Node, record: CallRecord) -> RelaxExpr:
    """CumSum and CumProd; LegalizeOps leaves them alone."""
    axis, dtype = node.attrs["axis"], node.output.dtype
    exclusive, reverse = bool(node.attrs["exclusive"]), node.attrs.get(REVERSE, False)
    data, shape = emitter.as_plain(node.inputs[0]), node.output.dims
    is_product = node.op == "cumprod"
    if not emitter.machine.runs_along_axes:
        if is_product:
            raise ModelError(
                f"layer {node.layer!r} (CumProd): {emitter.machine.name} does not support it. "
                "Build for a CPU."
            )
        check_length(emitter, node)
        return emitter.call(
            lambda x: all_pairs.running_sum(x, axis, dtype, exclusive, reverse),
            [data],
            record,
            opaque=True,
        )
    axis %= len(shape)
    lanes = processor(emitter.machine).vector_bytes // numpy_type(dtype).itemsize
    outer, columns = prod(shape[:axis]), prod(shape[axis + 1 :])
    # a vector holds several rows of very few columns
    apart = columns if 0 < columns < lanes and lanes % columns == 0 else 1
    rows = (outer, shape[axis] * columns) if apart == columns else (outer, shape[axis], columns)
    view = emitter.reshape(data, rows)
    total = emitter.call(
        lambda x: running_total(
            x, dtype, exclusive, lanes, reverse, is_product=is_product, distance=apart
        ),
        [view],
        record,
        opaque=True,
    )
    return emitter.reshape(total, shape)


def _call(
    emitter: Emitter,
    node: Node,
    expression: Callable[..., Tensor],
    record: CallRecord,
    *,
    opaque: bool = False,
) -> None:
    args = [emitter.as_plain(value) for value in node.inputs]
    emitter.plain[node.output] = emitter.call(expression, args, record, opaque=opaque)


def _rebuilt(emitter: Emitter, node: Node) -> RelaxExpr:
    """A Relax call for a node that a rewrite made or changed."""
    attrs, args = node.attrs, [emitter.expression_of(arg) for arg in node.args]
    if node.op in ("nn.max_pool2d", "nn.avg_pool2d"):
        pool = relax.op.nn.max_pool2d if node.op == "nn.max_pool2d" else relax.op.nn.avg_pool2d
        return pool(args[0], **_chosen(attrs, "pool_size", "ceil_mode", "count_include_pad"))
    if node.op == "nn.conv2d":
        conv = relax.op.nn.conv2d(args[0], args[1], **_chosen(attrs, "groups"))
        if len(args) == 2:
            return conv
        bias = emitter.builder.emit(relax.op.reshape(args[2], (1, -1, 1, 1)))
        return relax.op.add(emitter.builder.emit(conv), bias)
    if node.op == "dense":
        product = relax.op.matmul(args[0], args[1])
        return relax.op.add(emitter.builder.emit(product), args[2]) if args[2:] else product
    if node.op in ("mean", "max"):
        reduce = relax.op.mean if node.op == "mean" else relax.op.max
        return reduce(args[0], list(attrs["axis"]), attrs["keepdims"])
    if node.op == "nn.pad":
        widths, value = list(attrs["pad_width"]), attrs["pad_value"]
        return relax.op.nn.pad(args[0], widths, attrs["pad_mode"], value)
    if node.op == "permute_dims":
        return relax.op.permute_dims(args[0], list(attrs["axes"]))
    if node.op == "broadcast_to":
        return relax.op.broadcast_to(args[0], node.output.dims)
    if node.op == "concat":
        return relax.op.concat(args[0], axis=attrs["axis"])
    return getattr(relax.op, node.op)(*args)


def _chosen(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    """Window attributes and the named ones."""
    return {name: attrs[name] for name in ("strides", "padding", "dilation", *names)}
