"""One walk in execution order: check each node, fold it, or infer its output shapes.

Node by node, the shapes of all operands are known. Windows are checked before onnx's inference
runs. Shapes that the graph computes are known as soon as their operands are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.core.unexpected import reported
from tvmconv.frontend.attributes import check_attributes, check_list_operands, in_ascending_order
from tvmconv.frontend.checks import describe
from tvmconv.frontend.expand import in_standard_form
from tvmconv.frontend.fold import Folder, keeps_everything
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.limits import MAX_ACTIVATION_BYTES, MAX_CONSTANT_BYTES
from tvmconv.frontend.operators import IMPORTED
from tvmconv.frontend.quantize_linear import LINEAR, infer_linear, report_wide
from tvmconv.frontend.shapes import RESIZING, known_outputs, with_resized_shape
from tvmconv.frontend.tensors import (
    as_tensor,
    check_shape,
    constant_value,
    decode_attributes,
    element_type,
)
from tvmconv.frontend.types import (
    check_input_types,
    check_output_types,
    operator_schema,
    report_declared_shapes,
)
from tvmconv.frontend.windows import disputed_size

_SMALL = 4096  # constants up to this many elements can be shape operands

# onnx does not infer the mask of old Dropout nodes; it infers normalizations from their function
# bodies, which are not available for single nodes
_SAME_SHAPE = ("Dropout", "GroupNormalization", "MeanVarianceNormalization")

# first operator set in which onnx infers the operator without its function body
_INFERRED_SINCE = {"GreaterOrEqual": 16, "LessOrEqual": 16}


def infer_graph(
    proto: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    opset: int,
    inputs: tuple[TensorInfo, ...],
    constants: dict[str, Array],
    fold_budget: int,
    weight_budget: int,
) -> OnnxGraph:
    """Build the graph of a model whose structure was checked.

    ``nodes`` are in execution order, ``constants`` are the initializers. ``fold_budget`` and
    ``weight_budget`` are as in :class:`~tvmconv.frontend.fold.Folder`. Raises ``ModelError`` if a
    node is malformed, unknown to ONNX, or has an output whose shape depends on data.
    """
    graph = OnnxGraph(proto.graph.name, opset, proto.ir_version, inputs, ())
    for info in inputs:
        graph.types[info.name] = info
    for name, value in constants.items():
        _set_constant(graph, name, value)
    folder = Folder(graph, proto.graph, fold_budget, weight_budget)
    names: set[str] = set()
    fresh = _fresh_names(proto.graph)
    for node_proto in nodes:
        with reported(f"reading {describe(node_proto)}"):
            node = _decoded(node_proto, _own_name(node_proto, names), opset)
            for part in _in_standard_form(graph, node, node_proto.domain, fresh):
                _visit(graph, folder, part, _proto_of(part, node, node_proto))
    graph.outputs = tuple(graph.types[o.name] for o in proto.graph.output)
    check_output_types(proto.graph, graph.outputs)
    report_declared_shapes(proto.graph, graph)
    _check_activations(graph)
    report_wide(graph)
    total = sum(a.nbytes for a in graph.constants.values())
    if total > MAX_CONSTANT_BYTES:
        raise ModelError(
            f"the model's constants take {total} bytes. Expected at most {MAX_CONSTANT_BYTES}, a "
            "safety limit. Split the model."
        )
    return graph


def _check_activations(graph: OnnxGraph) -> None:
    """Refuse a graph that needs too much memory at any time."""
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs}
    last.update((info.name, len(graph.nodes)) for info in graph.outputs)
    sizes = {info.name: _bytes(info) for info in graph.inputs}
    alive = sum(sizes.values())
    for index, node in enumerate(graph.nodes):
        made = {name: _bytes(graph.types[name]) for name in node.outputs if name in graph.types}
        alive += sum(made.values())
        if alive > MAX_ACTIVATION_BYTES:
            raise node.error(
                f"the tensors alive while it runs take {alive} bytes; at most "
                f"{MAX_ACTIVATION_BYTES} are allowed",
                "check the model's sizes, or use smaller inputs",
            )
        sizes.update(made)
        for name in {*node.inputs, *made}:
            if last.get(name, index) == index:
                alive -= sizes.pop(name, 0)


def _bytes(info: TensorInfo) -> int:
    return prod(info.shape) * np.dtype(info.dtype).itemsize


def _own_name(proto: onnx.NodeProto, taken: set[str]) -> str:
    """The node's name, or its first output where it has none or shares it."""
    name = str(proto.name)
    if not name or name in taken:
        name = str(next(filter(None, proto.output), name) or proto.op_type)
    taken.add(name)
    return name


def _fresh_names(graph: onnx.GraphProto) -> Callable[[str], str]:
    """A function that makes names that no value of the model has."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken.update(value.name for value in (*graph.input, *graph.initializer))

    def fresh(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return fresh


def _decoded(proto: onnx.NodeProto, name: str, opset: int) -> OnnxNode:
    outputs = tuple(proto.output)
    while outputs and not outputs[-1]:
        outputs = outputs[:-1]
    node = OnnxNode(
        name,
        proto.op_type,
        tuple(proto.input),
        outputs,
        decode_attributes(proto, describe(proto)),
        opset,
    )
    if node.op not in IMPORTED:
        raise node.error(
            "this operator is not supported",
            "replace it with supported operators or cut the model before it",
        )
    if not (node.outputs and node.outputs[0]) or (node.op != "Constant" and not node.input(0)):
        raise node.error("its first input and output must be named")
    return node


def _in_standard_form(
    graph: OnnxGraph, node: OnnxNode, domain: str, fresh: Callable[[str], str]
) -> list[OnnxNode]:
    if node.op == "Constant":
        return [node]
    _check_inputs(graph, node)
    return in_standard_form(graph, in_ascending_order(node), domain, fresh)


def _proto_of(part: OnnxNode, node: OnnxNode, proto: onnx.NodeProto) -> onnx.NodeProto:
    """A node in ONNX's form; it is a part of ``node``, which ``proto`` is the form of."""
    if part is node:
        return proto
    stored = {attribute.name: attribute for attribute in proto.attribute}
    made = helper.make_node(part.op, part.inputs, part.outputs, part.name)
    for name, value in part.attrs.items():
        same = name in stored and value == node.attrs[name]
        made.attribute.append(stored[name] if same else helper.make_attribute(name, value))
    return made


def _visit(graph: OnnxGraph, folder: Folder, node: OnnxNode, proto: onnx.NodeProto) -> None:
    if node.op == "Constant":
        _set_constant(graph, node.outputs[0], constant_value(node))
        return
    check_input_types(graph, node)
    if node.op in ("Shape", "Size"):
        shape = graph.shape(node.inputs[0])
        start, end = int(node.attrs.get("start", 0)), node.attrs.get("end", len(shape))
        part = shape[start : int(end)] if node.op == "Shape" else int(np.prod(shape))
        _set_constant(graph, node.outputs[0], np.asarray(part, np.int64))
        folder.release(node)
        return
    check_attributes(node, len(graph.shape(node.inputs[0])))
    operands = {name: graph.constants[name] for name in node.inputs if name in graph.constants}
    is_linear = node.op in LINEAR
    known = infer_linear(graph, node) if is_linear else known_outputs(graph, node, operands)
    check_list_operands(node, len(graph.shape(node.inputs[0])), operands)
    found = _infer(graph, node, proto, operands) if known is None else known
    if found and node.op in RESIZING:
        found = [with_resized_shape(node, found[0], graph.types[node.inputs[0]], operands)]
    if folder.fold(node, proto, found):
        return
    if found is None:
        raise node.error(
            "the shape of its output depends on data or cannot be inferred",
            "remove the operator, or cut the model before it, because shapes must be static",
        )
    for info in found:
        graph.types[info.name] = info
    if node.op == "Dropout" and len(node.outputs) > 1 and keeps_everything(node, graph.constants):
        _store_mask(graph, folder, node)
    graph.nodes.append(node)


def _store_mask(graph: OnnxGraph, folder: Folder, node: OnnxNode) -> None:
    """The mask of a Dropout that drops nothing."""
    mask = graph.types[node.outputs[1]]
    if folder.is_read(mask.name):
        folder.check_memory(node, _bytes(mask))
        folder.store(node, mask.name, np.ones(mask.shape, mask.dtype))


def _check_inputs(graph: OnnxGraph, node: OnnxNode) -> None:
    for name in filter(None, node.inputs):
        if name not in graph.types:
            raise node.error(
                f"input {name!r} has no shape that can be inferred",
                "remove the operator that makes it, because shapes must be static",
            )


def _infer(
    graph: OnnxGraph, node: OnnxNode, proto: onnx.NodeProto, operands: dict[str, Array]
) -> list[TensorInfo] | None:
    """Types of the named outputs, or ``None`` where one has no static shape."""
    types = {}
    for name in filter(None, node.inputs):
        info = graph.types[name]
        code = helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))
        types[name] = helper.make_tensor_type_proto(code, info.shape)
    data = {name: as_tensor(a) for name, a in operands.items() if a.size <= _SMALL}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            _inferring_schema(node),
            proto,
            types,
            data,
            opset_imports=[helper.make_opsetid("", graph.opset)],
            ir_version=graph.ir_version,
        )
    except Exception as error:
        problem = (
            f"shape inference fails for operands {[graph.shape(n) for n in types]} "
            f"({' '.join(str(error).split())})"
        )
        if cause := disputed_size(graph, node):
            raise node.error(f"{problem}: {cause}", "give that node pads instead") from None
        raise node.misfit(problem) from None
    if node.op in _SAME_SHAPE:
        info = graph.types[node.inputs[0]]
        # the second output is Dropout's mask
        dtypes = (info.dtype, "bool" if node.opset >= 10 else info.dtype)
        named = zip(node.outputs, dtypes, strict=False)
        return [TensorInfo(name, info.shape, dtype) for name, dtype in named if name]
    infos = [_static(node, name, found.get(name)) for name in node.outputs if name]
    # further outputs may stay unknown as long as nobody reads them
    if not infos or infos[0] is None:
        return None
    return [info for info in infos if info is not None]


def _inferring_schema(node: OnnxNode) -> onnx.defs.OpSchema:
    """A definition with the operator's inference: its own, or a newer one of the same shapes."""
    since = _INFERRED_SINCE.get(node.op, 0)
    if node.opset >= since:
        return operator_schema(node)
    return onnx.defs.get_schema(node.op, since)


def _static(node: OnnxNode, name: str, found: Any) -> TensorInfo | None:
    if found is None or not found.HasField("tensor_type"):
        return None
    tensor = found.tensor_type
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    where = f"node {node.name!r} ({node.op}): output {name!r}"
    shape = tuple(int(d.dim_value) for d in tensor.shape.dim)
    dtype = element_type(tensor.elem_type, where)
    check_shape(shape, dtype, where)
    return TensorInfo(name, shape, dtype)


def _set_constant(graph: OnnxGraph, name: str, value: Array) -> None:
    graph.constants[name] = value
    graph.types[name] = TensorInfo(name, tuple(value.shape), str(value.dtype))
