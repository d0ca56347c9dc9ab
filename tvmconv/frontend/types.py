"""Element types and shapes that operators' definitions allow or the model declares."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache

import onnx

from tvmconv.core.arguments import shown
from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import STORED
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.tensors import DTYPES

_REMEDY = "correct the model and export it again"
_SPELLINGS = {
    "float32": "float",
    "float64": "double",
    **{name: name.replace("_", "") for name in STORED if name.startswith("float8")},
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn": "float4e2m1",
}
_NAMES = {f"tensor({_SPELLINGS.get(name, name)})": name for name in DTYPES.values()}
# an operand's type variable (or its one type), and the types that it may be
_Formal = tuple[str, frozenset[str]]


def check_input_types(graph: OnnxGraph, node: OnnxNode) -> None:
    """Check the operands' element types against the operator's definition.

    onnx's own inference does not check them. Raises ``ModelError`` if the operator set has no such
    operator or it does not support the types of the operands.
    """
    operator_schema(node)
    formals, repeats = _formal_inputs(node.op, node.opset)
    bound: dict[str, tuple[str, str]] = {}
    for index, name in enumerate(node.inputs):
        if not name or (index >= len(formals) and not repeats):
            continue
        variable, allowed = formals[min(index, len(formals) - 1)]
        dtype = graph.types[name].dtype
        if dtype not in allowed:
            raise node.error(
                f"input {name!r} is {dtype}, which {node.op} of operator set {node.opset} "
                f"does not take (it takes {', '.join(sorted(allowed))})",
                f"put a Cast before it, or {_REMEDY}",
            )
        first, expected = bound.setdefault(variable, (name, dtype))
        if dtype != expected:
            raise node.error(
                f"inputs {first!r} and {name!r} must have the same type, but are {expected} "
                f"and {dtype}",
                f"put a Cast before it, or {_REMEDY}",
            )


def check_output_types(proto: onnx.GraphProto, outputs: tuple[TensorInfo, ...]) -> None:
    """Refuse outputs that the model declares to be of another element type than they are."""
    for declared, info in zip(proto.output, outputs, strict=True):
        code = declared.type.tensor_type.elem_type
        if code != onnx.TensorProto.UNDEFINED and DTYPES.get(code) != info.dtype:
            known = onnx.TensorProto.DataType.values()
            name = onnx.TensorProto.DataType.Name(code) if code in known else code
            raise ModelError(
                f"the model declares its output {info.name!r} as {name}, but its nodes make "
                f"{info.dtype}; {_REMEDY}"
            )


def operator_schema(node: OnnxNode) -> onnx.defs.OpSchema:
    """The operator's definition in the node's operator set."""
    try:
        return onnx.defs.get_schema(node.op, node.opset, "")
    except onnx.defs.SchemaError:
        raise node.error(
            f"operator set {node.opset} has no such operator",
            "export the model with standard ONNX operators",
        ) from None


@cache
def _formal_inputs(op: str, opset: int) -> tuple[tuple[_Formal, ...], bool]:
    """The definition's inputs, and whether the last one may be given many times."""
    schema = onnx.defs.get_schema(op, opset, "")
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return (
        tuple((i.type_str, _dtypes(i.types)) for i in schema.inputs),
        bool(schema.inputs) and schema.inputs[-1].option == variadic,
    )


def _dtypes(types: Iterable[str]) -> frozenset[str]:
    """Numpy's names of ONNX types such as ``tensor(float)``, as far as numpy has the type."""
    return frozenset(_NAMES[name] for name in types if name in _NAMES)


def report_declared_shapes(proto: onnx.GraphProto, graph: OnnxGraph) -> None:
    """Warn of declared shapes of values and outputs that differ from the computed shapes."""
    wrong = [
        (value.name, declared, graph.shape(value.name))
        for value in (*proto.output, *proto.value_info)
        if value.name in graph.types
        and (declared := _sizes(value)) is not None
        and value.name not in graph.extents
        and not _agree(declared, graph.shape(value.name))
    ]
    if wrong:
        name, declared, shape = wrong[0]
        text = ", ".join("?" if size is None else str(size) for size in declared)
        warnings.warn(
            f"{len(wrong)} declared shapes differ from the computed shapes: the model declares "
            f"{shown(name)} as ({text}), its nodes make {shape}. tvmconv uses the computed shapes. "
            "Run onnx.shape_inference, or export the model again",
            stacklevel=2,
        )


def _sizes(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    """The declared sizes, ``None`` for an unknown size or an undeclared shape."""
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim)


def _agree(declared: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        size is None or size == actual for size, actual in zip(declared, shape, strict=True)
    )
