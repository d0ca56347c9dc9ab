"""What an ONNX model is but for the values of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

# smaller ones are bounds, axes and shapes, which code is made of
_WEIGHT_BYTES = 1024
# what these multiply by and add is data whatever its size
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization")


def structure_and_weights(path: Path) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """A hash of all but the weights' values, and these arrays by name.

    Weights are large initializers, and what convolutions, products and batch normalisations read,
    of more than one value, in floating point. Models of one hash are built to the same code: of
    weights names, types and shapes count alone, and whether all are zero. So sums that end in
    other bits on another processor make no other model. The hash is of what a model says, not of
    how a version of ONNX writes it.

    Parameters
    ----------
    path
        The ONNX file; data beside it are read, too.
    """
    model = onnx.load(path)
    weights, said = dict[str, npt.NDArray[Any]](), list[object]()
    weighted = {
        name for node in model.graph.node if node.op_type in _WEIGHTED for name in node.input[1:]
    }
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        read = tensor.name in weighted and array.dtype.kind == "f" and array.size > 1
        weight = array.nbytes > _WEIGHT_BYTES or read
        content = bytes([bool(array.any())]) if weight else array.tobytes()
        said.append((tensor.name, str(array.dtype), array.shape, content))
        if weight:
            weights[tensor.name] = array
    said += [_node(node) for node in model.graph.node]
    for values in (model.graph.input, model.graph.output):
        said.append([(value.name, _shape(value)) for value in values])
    said.append(sorted((opset.domain, opset.version) for opset in model.opset_import))
    return hashlib.sha256(repr(said).encode()).hexdigest(), weights


def _node(node: Any) -> object:
    attributes = [(a.name, _plain(onnx.helper.get_attribute_value(a))) for a in node.attribute]
    head = (node.op_type, node.domain, node.name)
    return (*head, list(node.input), list(node.output), sorted(attributes, key=lambda a: a[0]))


def _plain(value: Any) -> object:
    if isinstance(value, onnx.TensorProto):
        array = onnx.numpy_helper.to_array(value)
        return (str(array.dtype), array.shape, array.tobytes())
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString(deterministic=True)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, int | float | bytes | str) else list(map(_plain, value))


def _shape(value: Any) -> list[object]:
    sizes = value.type.tensor_type.shape.dim
    return [value.type.tensor_type.elem_type, *((d.dim_value or d.dim_param) for d in sizes)]
