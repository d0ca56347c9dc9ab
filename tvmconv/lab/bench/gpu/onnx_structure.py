"""An ONNX model without the values of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

# smaller ones are bounds, axes and shapes, which decide the code
_WEIGHT_BYTES = 1024
# operators whose factors and terms are weights at any size
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization")


def structure_and_weights(path: Path) -> tuple[str, dict[str, npt.NDArray[Any]]]:
    """A hash of the model without the values of its weights, and these arrays by name.

    Weights are large initializers, and the floating-point operands of :data:`_WEIGHTED` that hold
    several values. Models of one hash are built to the same code: weights count by name, type and
    shape, and by whether all are zero. The last bits of a sum on another CPU do not change it.
    """
    model = onnx.load(path)
    graph, weights = model.graph, dict[str, npt.NDArray[Any]]()
    weighted = {name for node in graph.node if node.op_type in _WEIGHTED for name in node.input[1:]}
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        read = tensor.name in weighted and array.dtype.kind == "f" and array.size > 1
        if array.nbytes > _WEIGHT_BYTES or read:
            weights[tensor.name] = array
            # zeros may be left out of the code
            text = f"{tensor.name} {array.dtype} {array.shape} {array.any()}"
            tensor.CopyFrom(onnx.TensorProto(name=text))
        else:
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    del graph.value_info[:]
    opsets = sorted((opset.domain, opset.version) for opset in model.opset_import)
    content = graph.SerializeToString(deterministic=True)
    return hashlib.sha256(repr(opsets).encode() + content).hexdigest(), weights
