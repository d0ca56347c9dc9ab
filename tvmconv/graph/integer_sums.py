"""Convolutions whose result is the sum of integer products itself: ONNX's ConvInteger.

They arrive as ``conv2d(astype(x, int32) - zero point, weight)`` in int32.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.words import has_colliding_weights
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.graph.fold import scalar
from tvmconv.graph.integer_layers import unsupported
from tvmconv.graph.ir import Graph, Node, Value, constant, make_node
from tvmconv.graph.linear import EIGHT_BITS, FLIP
from tvmconv.graph.match import CONV, reads_padding, workload_of
from tvmconv.machines.dot import dot_of_bytes
from tvmconv.machines.record import Machine


def fuse_integer_sums(graph: Graph, machine: Machine) -> None:
    """Replace those that an 8-bit kernel takes by ``tvmconv.conv2d`` nodes, in place."""
    dtype = dot_of_bytes(machine).data

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        found = _operands(node)
        if found is None:
            return [node]
        data, zero_point = found
        made: list[Node] = []
        if data.dtype != dtype:
            made.append(make_node(FLIP, [data], data.dims, dtype=dtype))
            data, zero_point = made[-1].output, zero_point + (128 if dtype == "uint8" else -128)
        weight = node.args[1].data
        low, high = int(weight.min()), int(weight.max())
        fits = low >= -128 and high <= 127
        collides = fits and has_colliding_weights(weight, node.attrs["groups"], machine)
        narrow = "int8" if fits and not collides else "int16"
        pads = reads_padding(node) and zero_point != 0
        types = DataTypes(dtype, narrow, "int32", "int32", Quantisation(data_zero_point=pads))
        workload = workload_of(node, (EpilogueOp("bias"),), types)
        if max(-low, high) > np.iinfo(np.int16).max or unsupported(workload, machine):
            return [node]
        bias = constant(np.zeros(len(weight), np.int32), f"{node.layer}_bias")
        args = [data, constant(weight.astype(narrow), node.args[1].name), bias]
        attrs = {"workload": workload, "numbers": {"zero_point": zero_point}}
        made.append(Node(CONV, args, [], attrs, None, node.layer))
        made[-1].outputs = [Value(node.output.shape, "int32", node.output.name, None, made[-1])]
        mapping[node.output] = made[-1].output
        return made

    graph.forward(visit)
    graph.remove_dead()


def _operands(node: Node) -> tuple[Value, int] | None:
    """The 8-bit data of a convolution in int32, and its zero point."""
    if node.op != "nn.conv2d" or node.output.dtype != "int32":
        return None
    layouts = (node.attrs["data_layout"], node.attrs["kernel_layout"])
    if node.args[1].data is None or layouts != ("NCHW", "OIHW"):
        return None
    made, zero_point = node.args[0].producer, 0.0
    if made is not None and made.op == "subtract":
        number = scalar(made.args[1])
        if number is None:
            return None
        made, zero_point = made.args[0].producer, number
    if made is None or made.op != "astype" or len(made.output.shape or ()) != 4:
        return None
    data: Value = made.args[0]
    if data.dtype not in EIGHT_BITS:
        return None
    limits = np.iinfo(data.dtype)
    return (data, int(zero_point)) if limits.min <= zero_point <= limits.max else None
