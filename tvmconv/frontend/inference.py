"""Shapes and types of a node's outputs, by onnx's own inference."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.tensors import as_tensor, check_shape, element_type
from tvmconv.frontend.types import operator_schema
from tvmconv.frontend.windows import disputed_size

_SMALL = 4096  # constants up to this many elements can be shape operands

# onnx does not infer the mask of old Dropout nodes; it infers normalizations from their function
# bodies, which are not available for single nodes
_SAME_SHAPE = ("Dropout", "GroupNormalization", "MeanVarianceNormalization")

# first operator set in which onnx infers the operator without its function body
_INFERRED_SINCE = {"GreaterOrEqual": 16, "LessOrEqual": 16}


def inferred_outputs(
    graph: OnnxGraph, node: OnnxNode, proto: onnx.NodeProto, operands: dict[str, Array]
) -> list[TensorInfo] | None:
    """Types of the named outputs, or ``None`` where one has no static shape."""
    types = {}
    for name in filter(None, node.inputs):
        info = graph.types[name]
        code = helper.np_dtype_to_tensor_dtype(numpy_type(info.dtype))
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
