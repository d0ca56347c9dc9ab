"""The matrix of an EyeLike, which depends on a shape only."""

from __future__ import annotations

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.tensors import element_type


def eye_bytes(graph: OnnxGraph, node: OnnxNode) -> int:
    """Memory that :func:`eye` needs. Raises ``ModelError`` if the input is not a matrix."""
    shape = graph.shape(node.inputs[0])
    if len(shape) != 2:
        raise node.error(f"its input of shape {shape} is not a matrix")
    return 16 * shape[0] * shape[1]


def eye(graph: OnnxGraph, node: OnnxNode) -> Array:
    """Ones on the diagonal ``k``, in the type ``dtype`` or the type of the input."""
    given = graph.types[node.inputs[0]]
    rows, columns = given.shape
    code, dtype = node.attrs.get("dtype"), given.dtype
    if code is not None:
        dtype = element_type(int(code), f"node {node.name!r} ({node.op}): dtype")
    diagonal = max(-rows, min(int(node.attrs.get("k", 0)), columns))
    return np.eye(rows, columns, diagonal).astype(numpy_type(dtype))
