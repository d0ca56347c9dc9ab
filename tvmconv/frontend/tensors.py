"""Decodes stored tensors and attributes; sizes are checked before a byte is copied."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import STORED, code_type, numpy_type
from tvmconv.frontend.external import ExternalData
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.limits import MAX_CONSTANT_BYTES, MAX_DIMENSION, MAX_RANK, MAX_TENSOR_BYTES

if TYPE_CHECKING:
    import onnx

# ONNX element type -> name in numpy or ml_dtypes, for the types that have both
DTYPES: dict[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}
CODES = {name: code for code, name in DTYPES.items()}


def element_type(code: int, where: str) -> str:
    """Numpy's name of an ONNX element type."""
    import onnx

    if code not in DTYPES:
        names = onnx.TensorProto.DataType
        name = names.Name(code) if code in names.values() else str(code)
        raise ModelError(
            f"{where} has element type {name}, which is not supported. "
            f"Convert it to one of {', '.join(DTYPES.values())}."
        )
    return DTYPES[code]


def check_shape(shape: tuple[int, ...], dtype: str, where: str) -> int:
    """Check a static shape against the limits; returns the tensor's size in bytes."""
    if len(shape) > MAX_RANK:
        raise ModelError(f"{where} has rank {len(shape)}. At most {MAX_RANK} is supported.")
    if any(not 0 <= n <= MAX_DIMENSION for n in shape):
        raise ModelError(f"{where} has shape {shape}; each size must be 0 to {MAX_DIMENSION}")
    size = prod(shape) * numpy_type(dtype).itemsize
    if size > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{where} of shape {shape} and type {dtype} would take {size} bytes. "
            f"At most {MAX_TENSOR_BYTES} are allowed. Check the model's sizes."
        )
    return size


def decode_tensor(
    tensor: onnx.TensorProto, where: str, external: ExternalData | None = None
) -> Array:
    """The array of a ``TensorProto``, which errors call ``where``.

    ``external`` reads external data; it is ``None`` if the model was not read from a file.
    """
    import onnx
    from onnx import numpy_helper

    dtype = element_type(tensor.data_type, where)
    shape = tuple(tensor.dims)
    size = check_shape(shape, dtype, where)
    if tensor.HasField("segment"):
        raise ModelError(
            f"{where} is stored in segments. Save the model again with a current onnx package."
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if external is None:
            raise ModelError(
                f"{where} keeps its data in an external file, but the model was not given as a "
                "path. Pass the path of the .onnx file."
            )
        if dtype in STORED and STORED[dtype].bits < 8:
            stored = -(-prod(shape) * STORED[dtype].bits // 8)
            return _unpacked(external.read(tensor, stored, where), dtype, shape)
        return external.read(tensor, size, where).view(numpy_type(dtype)).reshape(shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        packed = dtype in STORED and STORED[dtype].bits < 8
        size = -(-prod(shape) * STORED[dtype].bits // 8) if packed else size
        if len(raw) != size:
            raise ModelError(
                f"{where} of shape {shape} and type {dtype} needs {size} bytes of data but holds "
                f"{len(raw)}; the file is damaged. Export it again."
            )
        if packed:
            return _unpacked(np.frombuffer(raw, np.uint8), dtype, shape)
        # the file format is little-endian on every machine
        kind = np.dtype(code_type(dtype))
        array: Array = np.frombuffer(raw, kind.newbyteorder("<")).reshape(shape)
        return array.astype(kind, copy=False).view(numpy_type(dtype))
    try:
        return np.asarray(numpy_helper.to_array(tensor)).reshape(shape)
    except Exception as error:
        raise ModelError(
            f"{where} of shape {shape} cannot be decoded ({error}). "
            "The file is damaged. Export it again."
        ) from None


def _unpacked(data: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    """Elements of less than 8 bits, which files pack into bytes, the first in the low bits."""
    codes = unpacked_codes(data, STORED[dtype].bits)[: prod(shape)]
    return codes.view(numpy_type(dtype)).reshape(shape)


def unpacked_codes(data: Array, bits: int) -> Array:
    """Numbers of few bits along the last axis of bytes, the low bits of a byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def read_initializers(graph: onnx.GraphProto, external: ExternalData | None) -> dict[str, Array]:
    """All initializers by name."""
    arrays: dict[str, Array] = {}
    total = 0
    for tensor in graph.initializer:
        array = decode_tensor(tensor, f"initializer {tensor.name!r}", external)
        arrays[tensor.name] = array
        total += array.nbytes
        if total > MAX_CONSTANT_BYTES:
            raise ModelError(
                f"the initializers take more than {MAX_CONSTANT_BYTES} bytes, a safety limit. "
                "Split the model."
            )
    return arrays


def decode_attributes(proto: onnx.NodeProto, where: str) -> dict[str, object]:
    """Attributes as plain Python values; tensors as arrays, graphs as they are."""
    import onnx
    from onnx import helper

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
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))


def proto_of(part: OnnxNode, node: OnnxNode, proto: onnx.NodeProto) -> onnx.NodeProto:
    """A node in ONNX's form; it is a part of ``node``, which ``proto`` is the form of."""
    from onnx import helper

    if part is node:
        return proto
    stored = {attribute.name: attribute for attribute in proto.attribute}
    made = helper.make_node(part.op, part.inputs, part.outputs, part.name)
    for name, value in part.attrs.items():
        same = name in stored and value == node.attrs[name]
        made.attribute.append(stored[name] if same else helper.make_attribute(name, value))
    return made
