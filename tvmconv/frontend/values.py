"""Constants and attributes as the model stores them, and back."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmconv.frontend.graph import Array, OnnxNode


def decode_attributes(proto: onnx.NodeProto, where: str) -> dict[str, object]:
    """Attributes as plain Python values; tensors as arrays, graphs as they are."""
    from tvmconv.frontend.tensors import decode_tensor

    attrs: dict[str, object] = {}
    for attribute in proto.attribute:
        value: object
        kind = attribute.type
        if kind == onnx.AttributeProto.TENSOR:
            value = decode_tensor(attribute.t, f"{where}: attribute {attribute.name!r}")
        elif kind == onnx.AttributeProto.STRING:
            value = attribute.s.decode("utf-8", "replace")
        elif kind == onnx.AttributeProto.STRINGS:
            value = tuple(s.decode("utf-8", "replace") for s in attribute.strings)
        else:
            value = helper.get_attribute_value(attribute)
            if isinstance(value, list):
                value = tuple(value)
        attrs[attribute.name] = value
    return attrs


def constant_value(node: OnnxNode) -> Array:
    """Value of a Constant node."""
    for name, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in node.attrs:
            return np.asarray(node.attrs[name], dtype)
    raise node.error(
        f"its value is given as {', '.join(node.attrs) or 'nothing'}, which is not supported",
        "use a dense numeric tensor",
    )


def as_tensor(value: Array) -> onnx.TensorProto:
    """A ``TensorProto`` of an array, for shape inference."""
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
