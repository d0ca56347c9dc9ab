"""The simplified graph as an ONNX model again."""

from __future__ import annotations

from collections.abc import Iterable
from math import pi
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.evaluate import trains
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.nested.export import control_nodes
from tvmconv.frontend.nested.subgraphs import subgraphs
from tvmconv.frontend.operators import CONTROL, MICROSOFT
from tvmconv.frontend.quantize_linear import LINEAR
from tvmconv.frontend.structure import all_nodes


def to_proto(graph: OnnxGraph) -> onnx.ModelProto:
    """A ``ModelProto`` that computes what the graph computes, with static shapes.

    A merged Gelu is written as several operators if the model's operator set lacks it. If the set
    lacks a form of QuantizeLinear or DequantizeLinear, operators of com.microsoft replace them.
    Protobuf raises ``ValueError`` if the constants exceed its limit of 2 GiB. Raises ``ModelError``
    if a size depends on the data: the nodes compute with the largest shapes.
    """
    if graph.extents:
        raise ModelError(
            f"model {graph.name!r} has values whose size depends on the data, such as "
            f"{next(iter(graph.extents))!r}, and cannot be written with fixed shapes. Expected a "
            "model of fixed sizes. End it before these values with --outputs."
        )
    nodes = _nodes(graph)
    imports = [helper.make_opsetid("", graph.opset)]
    if any(proto.domain == MICROSOFT for node in nodes for proto in (node, *_inner(node))):
        imports.append(helper.make_opsetid(MICROSOFT, 1))
    return helper.make_model(
        helper.make_graph(
            nodes,
            graph.name or "graph",
            list(map(_info, graph.inputs)),
            list(map(_info, graph.outputs)),
            [_tensor(value, name) for name, value in graph.constants.items()],
        ),
        opset_imports=imports,
        ir_version=max(graph.ir_version, 4),  # initializers need not be inputs from 4 on
    )


def _nodes(graph: OnnxGraph) -> list[onnx.NodeProto]:
    protos = []
    for node in graph.nodes:
        if node.op in CONTROL:
            protos += control_nodes(node, _nodes, _info)
        else:
            protos += spelled_out(node, graph.opset)
    return protos


def _inner(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    return (proto for graph in subgraphs(node) for proto in all_nodes(graph))


def _info(info: TensorInfo) -> onnx.ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(numpy_type(info.dtype))
    return helper.make_tensor_value_info(info.name, code, info.shape)


def _tensor(value: Array, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def _attribute(value: Any) -> Any:
    return _tensor(value, "") if isinstance(value, np.ndarray) else value


def spelled_out(node: OnnxNode, opset: int) -> list[onnx.NodeProto]:
    """The node as ONNX nodes in a model of operator set ``opset``."""
    if node.op == "Gelu" and node.opset < 20:
        numbers = {"one": 1.0, "half": 0.5}
        if node.attrs.get("approximate") == "tanh":
            numbers |= {"scale": (2 / pi) ** 0.5, "factor": 0.044715}
            curve = [
                ("Mul", ("x", "x"), "square"),
                ("Mul", ("square", "factor"), "scaled"),
                ("Add", ("scaled", "one"), "growth"),
                ("Mul", ("x", "scale"), "near"),
                ("Mul", ("near", "growth"), "inner"),
                ("Tanh", ("inner",), "curve"),
            ]
        else:
            numbers |= {"root": 2**-0.5}
            curve = [("Mul", ("x", "root"), "inner"), ("Erf", ("inner",), "curve")]
        constants = [
            helper.make_node("Constant", [], [f"{node.outputs[0]}.{key}"], value=_scalar(value))
            for key, value in numbers.items()
        ]
        gate = [("Add", ("curve", "one"), "sum"), ("Mul", ("x", "sum"), "product")]
        return constants + _spelled(node, [*curve, *gate, ("Mul", ("product", "half"), "y")])
    attributes = {name: _attribute(value) for name, value in node.attrs.items()}
    # the model's operator set has no such form
    domain = MICROSOFT if node.op in LINEAR and node.opset != opset else ""
    op = "Scatter" if node.op == "ScatterElements" and opset < 11 else node.op
    outputs = list(node.outputs)
    if node.op == "BatchNormalization" and trains(node):
        # the schema counts statistics without a name, too
        outputs += [""] * ((3 if opset >= 14 else 5) - len(outputs))
    return [helper.make_node(op, node.inputs, outputs, node.name, domain=domain, **attributes)]


def _scalar(value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, np.float32))


def _spelled(node: OnnxNode, steps: list[tuple[str, tuple[str, ...], str]]) -> list[onnx.NodeProto]:
    ends = {"x": node.inputs[0], "y": node.outputs[0]}

    def name(key: str) -> str:
        return ends.get(key, f"{node.outputs[0]}.{key}")

    return [helper.make_node(op, [name(i) for i in ins], [name(out)]) for op, ins, out in steps]
