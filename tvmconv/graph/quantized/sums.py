"""Layers with INT32 results: ONNX's ConvInteger and MatMulInteger.

The frontend writes them as ``conv2d(astype(x, int32) - zero point, weight)`` in INT32, or as such a
matrix product. A zero point that is computed at run time is subtracted after the accumulation,
multiplied by the sum of the weights that meet the image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.integer.dwords import has_colliding_weights
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.graph.ir import Array, Graph, Node, Value, constant, make_node, pixelwise
from tvmconv.graph.match import CONV, reads_padding, taps_inside, workload_of
from tvmconv.graph.quantized.dense import pixels_as_rows, rows_as_pixels
from tvmconv.graph.quantized.layers import unsupported
from tvmconv.graph.quantized.scales import EIGHT_BITS, FLIP
from tvmconv.graph.rewrite.fold import scalar
from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Machine


@dataclass(frozen=True)
class _Data:
    """INT8 data, with a constant zero point or one that is computed at run time (``moving``)."""

    value: Value
    zero_point: int = 0
    moving: Value | None = None


def fuse_integer_sums(graph: Graph, machine: Machine) -> None:
    """Replace layers that an INT8 kernel computes by ``tvmconv.conv2d`` nodes, in place."""

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        data = _data(node)
        if data is None:
            return [node]
        made: list[Node] = []
        data = _in_type(data, multiply_of_bytes(machine).data, made)
        is_product = node.op == "matmul"
        layer = _pixelwise(node, data, made) if is_product else node
        fused = _fused(layer, data, machine)
        if fused is None:
            return [node]
        made.append(fused)
        if is_product:
            made += pixels_as_rows(fused.output, node.output.dims)
        if data.moving is not None:
            weights = _met(node) if not is_product else node.args[1].data.sum(axis=0)
            made += _subtracted(made[-1].output, data.moving, weights)
        mapping[node.output] = made[-1].output
        return made

    graph.forward(visit)
    graph.remove_dead()


def _data(node: Node) -> _Data | None:
    """The INT8 data of an INT32 product with a constant weight."""
    if node.op not in ("nn.conv2d", "matmul") or node.output.dtype != "int32":
        return None
    weight = node.args[1]
    if weight.data is None or node.output.shape is None or not all(node.output.shape):
        return None
    if node.op == "nn.conv2d":
        layouts = (node.attrs["data_layout"], node.attrs["kernel_layout"])
        if layouts != ("NCHW", "OIHW") or len(node.output.shape) != 4:
            return None
    elif weight.data.ndim != 2 or len(node.args[0].shape or ()) < 2:
        return None
    made, zero_point, moving = node.args[0].producer, 0.0, None
    if made is not None and made.op == "subtract":
        number = scalar(made.args[1])
        moving = made.args[1] if number is None else None
        zero_point = number or 0.0
        made = made.args[0].producer
    if made is None or made.op != "astype" or made.args[0].dtype not in EIGHT_BITS:
        return None
    if moving is not None and not _one_a_row(moving, made.output.dims, node.op):
        return None
    limits = np.iinfo(made.args[0].dtype)
    fits = limits.min <= zero_point <= limits.max
    return _Data(made.args[0], int(zero_point), moving) if fits else None


def _one_a_row(zero_point: Value, data: tuple[int, ...], op: str) -> bool:
    """Whether a zero point is one number, or one number for each row of a matrix."""
    shape = zero_point.shape
    if shape is None or zero_point.dtype != "int32":
        return False
    if all(size == 1 for size in shape):
        return len(shape) <= len(data)
    return op == "matmul" and len(shape) <= len(data) and shape[-1] == 1


def _in_type(data: _Data, dtype: str, made: list[Node]) -> _Data:
    """The same numbers in the type of the machine's kernels."""
    if data.value.dtype == dtype:
        return data
    shift = 128 if dtype == "uint8" else -128
    made.append(make_node(FLIP, [data.value], data.value.dims, dtype=dtype))
    flipped, moving = made[-1].output, data.moving
    if moving is None:
        return _Data(flipped, data.zero_point + shift)
    number = constant(np.array(shift, np.int32))
    made.append(make_node("add", [moving, number], moving.dims, dtype="int32"))
    return _Data(flipped, 0, made[-1].output)


def _pixelwise(node: Node, data: _Data, made: list[Node]) -> Node:
    """A product as a convolution of pixels."""
    made += rows_as_pixels(data.value)
    weight = node.args[1].data.T[:, :, None, None]
    return pixelwise(node, made[-1].output, constant(np.ascontiguousarray(weight)), "int32")


def _fused(node: Node, data: _Data, machine: Machine) -> Node | None:
    """The kernel's node; None if no kernel computes it."""
    weight = node.args[1].data
    low, high = int(weight.min()), int(weight.max())
    fits = low >= -128 and high <= 127
    collides = fits and has_colliding_weights(weight, node.attrs["groups"], machine)
    narrow = "int8" if fits and not collides else "int16"
    source = node.args[0] if node.args[0].dtype in EIGHT_BITS else data.value
    pads = reads_padding(node) and data.zero_point != 0
    types = DataTypes(source.dtype, narrow, "int32", "int32", Quantisation(data_zero_point=pads))
    workload = workload_of(node, (EpilogueOp("bias"),), types)
    if max(-low, high) > np.iinfo(np.int16).max or unsupported(workload, machine):
        return None
    bias = constant(np.zeros(len(weight), np.int32), f"{node.layer}_bias")
    args = [source, constant(weight.astype(narrow), node.args[1].name), bias]
    attrs = {"workload": workload, "numbers": {"zero_point": data.zero_point}}
    dims, name = node.output.dims, node.output.name
    return make_node(CONV, args, dims, dtype="int32", name=name, layer=node.layer, attrs=attrs)


def _met(node: Node) -> Array:
    """Sums of the weights that meet the image at each output, (1, K, OH, OW) or (1, K, 1, 1)."""
    taps = node.args[1].data.sum(axis=1)
    if not reads_padding(node):
        return np.asarray(taps.sum(axis=(1, 2))[None, :, None, None])
    inside = [taps_inside(node, axis).astype(taps.dtype) for axis in range(2)]
    return np.einsum("krs,hr,ws->khw", taps, *inside)[None]


def _subtracted(sums: Value, zero_point: Value, weights: Array) -> list[Node]:
    """``sums - zero_point * weights``, modulo 2**32."""
    factor = constant(weights.astype(np.int64).astype(np.int32))
    shape = np.broadcast_shapes(zero_point.dims, factor.dims)
    product = make_node("multiply", [zero_point, factor], shape, dtype="int32")
    rest = make_node("subtract", [sums, product.output], sums.dims, dtype="int32")
    return [product, rest]
