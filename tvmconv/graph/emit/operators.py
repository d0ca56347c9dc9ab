"""Operators other than layers: blocked forms where planned, plain forms otherwise."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from tvmconv.graph.emit.emitter import (
    EXTREMES,
    Emitter,
    Rule,
    block_channels,
    constant_of,
    emit_single,
    extreme,
    record_of,
)
from tvmconv.graph.emit.moves import MOVES
from tvmconv.graph.emit.quantized import (
    dequantized_by,
    emit_flip,
    emit_linear,
    emit_lookup,
    quantized_by,
)
from tvmconv.graph.emit.statistics import standardize_blocked
from tvmconv.graph.ir import ARITHMETIC, Node, Value
from tvmconv.graph.quantized.scales import AVERAGE, FLIP, TABLE
from tvmconv.graph.rewrite.statistics import STANDARDIZE
from tvmconv.graph.scalars import ScalarFunction, map_tensor, scalar_expression
from tvmconv.operators.global_pool import global_pool
from tvmconv.operators.lrn import lrn_blocked
from tvmconv.operators.pool import PoolWindow, avg_pool, max_pool
from tvmconv.operators.resize import resize_blocked
from tvmconv.tvm_api import relax, te, tirx
from tvmconv.tvm_api.types import Expr, RelaxExpr, Tensor


def emit_blocked(emitter: Emitter, node: Node) -> None:
    """A node that the plan computes on blocks."""
    function = scalar_expression(node)
    if function is not None:
        _map(emitter, node, function)
    else:
        _RULES[node.op](emitter, node)


def _map(emitter: Emitter, node: Node, function: ScalarFunction) -> None:
    name = record_of(node).operator
    emit_single(emitter, node, lambda x: map_tensor(x, function, name), opaque=False)


def _operand(emitter: Emitter, value: Value, node: Node) -> RelaxExpr:
    """An operand of a broadcasting operator, as blocks or with a trailing axis of size 1."""
    if value.data is not None:
        if value.data.size == 1:
            return constant_of(value.data.reshape(()), value.dtype)
        return constant_of(block_channels(value.data, emitter.lanes), value.dtype)
    if value.dims[1] == 1 and node.output.dims[1] != 1:
        return emitter.reshape(emitter.as_plain(value), (*value.dims, 1))
    return emitter.as_blocked(value)


def _binary(emitter: Emitter, node: Node) -> None:
    left, right = (_operand(emitter, value, node) for value in node.args)
    if node.op in EXTREMES:
        call = extreme(emitter.builder, node.op, left, right)
    else:
        call = getattr(relax.op, node.op)(left, right)
    emitter.set_blocked(node.output, emitter.bind(call, record_of(node)))


def windows_of(node: Node) -> list[PoolWindow]:
    """The window of a pool along each spatial axis."""
    attrs = node.attrs
    sizes, padding = attrs["pool_size"], attrs["padding"]
    count = len(sizes)
    return [
        PoolWindow(
            int(sizes[axis]),
            int(attrs["strides"][axis]),
            int(padding[axis]),
            int(padding[axis + count]),
            int(attrs["dilation"][axis]),
            bool(attrs["ceil_mode"]),
        )
        for axis in range(count)
    ]


def _pool(emitter: Emitter, node: Node) -> None:
    rows, columns = windows_of(node)
    flops = rows.kernel * columns.kernel * int(np.prod(node.output.dims))
    if node.op == "nn.max_pool2d":
        emit_single(emitter, node, lambda x: max_pool(x, rows, columns), flops=flops)
    else:
        counted = bool(node.attrs["count_include_pad"])
        emit_single(emitter, node, lambda x: avg_pool(x, rows, columns, counted), flops=flops)


def depth_pool(
    emitter: Emitter, node: Node, data: RelaxExpr, image: tuple[int, ...], lanes: int
) -> RelaxExpr:
    """Pooling along the depth, of images of this shape in either layout.

    All elements of a plane are treated alike, so that a plane may be one long row of vectors.
    """
    rows, columns, volumes = PoolWindow(*node.attrs["window"]), PoolWindow(1), node.attrs["volumes"]
    planes, depth = node.output.dims[0], node.args[0].dims[0] // volumes

    def expression(x: Tensor) -> Tensor:
        if node.attrs["kind"] == "max":
            return max_pool(x, rows, columns)
        return avg_pool(x, rows, columns, node.attrs["count_include_pad"])

    view = emitter.reshape(data, (volumes, 1, depth, prod(image) // lanes, lanes))
    record = record_of(node, rows.kernel * prod(node.output.dims))
    pooled = emitter.call(expression, [view], record, opaque=True)
    return emitter.reshape(pooled, (planes, *image))


def _depth_pool(emitter: Emitter, node: Node) -> None:
    _, channels, height, width = node.output.dims
    image = (emitter.machine.blocks(channels), height, width, emitter.lanes)
    data = emitter.as_blocked(node.args[0])
    emitter.set_blocked(node.output, depth_pool(emitter, node, data, image, emitter.lanes))


def _global(emitter: Emitter, node: Node) -> None:
    channels, kind = node.output.dims[1], "avg" if node.op == "mean" else "max"
    flops = int(np.prod(node.args[0].dims))
    stays = node not in emitter.plan.leaving
    args = [emitter.as_blocked(node.args[0])]

    def expression(x: Tensor) -> Tensor:
        return global_pool(x, channels, kind, blocked=stays)

    result = emitter.call(expression, args, record_of(node, flops), opaque=True)
    emitter.define(node.output, result, blocked=stays)


def _resize(emitter: Emitter, node: Node) -> None:
    attrs, size = node.attrs, node.output.dims[2:]

    def expression(x: Tensor) -> Tensor:
        return resize_blocked(
            x,
            (size[0], size[1]),
            method=attrs["method"],
            coordinate_transformation_mode=attrs["coordinate_transformation_mode"],
            rounding_method=attrs["rounding_method"],
            cubic_alpha=attrs["cubic_alpha"],
            roi=attrs["roi"],
        )

    emit_single(emitter, node, expression)


def _lrn(emitter: Emitter, node: Node) -> None:
    channels = node.output.dims[1]
    emit_single(emitter, node, lambda x: lrn_blocked(x, channels, **node.attrs))


def _prelu(emitter: Emitter, node: Node) -> None:
    value = node.args[1]
    slope = block_channels(np.reshape(value.data, (1, -1, 1, 1)), emitter.lanes)
    shared = slope.shape[1] == 1 and slope.shape[-1] == 1

    def expression(x: Tensor, a: Tensor) -> Tensor:
        def element(n: Expr, b: Expr, h: Expr, w: Expr, c: Expr) -> Expr:
            item, factor = x[n, b, h, w, c], a[0, 0 if shared else b, 0, 0, 0 if shared else c]
            return tirx.Select(item < tirx.const(0, "float32"), item * factor, item)

        return te.compute(x.shape, element, name="prelu")

    args = [emitter.as_blocked(node.args[0]), constant_of(slope, "float32")]
    emitter.set_blocked(node.output, emitter.call(expression, args, record_of(node)))


def average(emitter: Emitter, node: Node, data: RelaxExpr, channels: int) -> RelaxExpr:
    """An average of INT8 blocks that hold ``channels`` channels."""

    def expression(x: Tensor) -> Tensor:
        numbers = dequantized_by(x, node.attrs["source"])
        if node.attrs["kind"] == "mean":
            mean = global_pool(numbers, channels, "avg", blocked=True)
        else:
            rows, columns = windows_of(node)
            mean = avg_pool(numbers, rows, columns, bool(node.attrs["count_include_pad"]))
        return quantized_by(mean, node.attrs["result"])

    flops = int(np.prod(node.args[0].dims))
    return emitter.call(expression, [data], record_of(node, flops), opaque=True)


def _average(emitter: Emitter, node: Node) -> None:
    data = emitter.as_blocked(node.args[0])
    emitter.set_blocked(node.output, average(emitter, node, data, node.output.dims[1]))


_RULES: dict[str, Rule] = {
    **MOVES,
    "quantize": partial(emit_linear, blocked=True),
    "dequantize": partial(emit_linear, blocked=True),
    FLIP: partial(emit_flip, blocked=True),
    TABLE: partial(emit_lookup, blocked=True),
    AVERAGE: _average,
    **dict.fromkeys(ARITHMETIC, _binary),
    "nn.max_pool2d": _pool,
    "nn.avg_pool2d": _pool,
    "depth_pool": _depth_pool,
    "mean": _global,
    "max": _global,
    STANDARDIZE: standardize_blocked,
    "image.resize2d": _resize,
    "nn.prelu": _prelu,
    "lrn": _lrn,
}
