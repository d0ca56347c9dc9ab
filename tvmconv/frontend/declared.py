"""Compares the shapes that a model declares with the shapes that its nodes make."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tvmconv.core.arguments import shown
from tvmconv.frontend.graph import OnnxGraph

if TYPE_CHECKING:
    import onnx


def report_declared_shapes(proto: onnx.GraphProto, graph: OnnxGraph) -> None:
    """Warn of declared shapes of values and outputs that differ from the computed shapes."""
    wrong = [
        (value.name, declared, graph.shape(value.name))
        for value in (*proto.output, *proto.value_info)
        if value.name in graph.types
        and (declared := _sizes(value)) is not None
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
