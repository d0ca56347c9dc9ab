"""Operators that keep every element and only change the shape."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvmconv.frontend.convert.emitter import Emitter
from tvmconv.frontend.convert.registry import converts
from tvmconv.frontend.graph import Node


@converts("Flatten", "Reshape", "Squeeze", "Unsqueeze", attrs="allowzero axes axis shape")
def reshape(e: Emitter, node: Node) -> Any:
    """A reshape to the output's shape, which the reader has inferred."""
    return relax.op.reshape(e.value(node.inputs[0]), e.shape(node.outputs[0]))


@converts("Identity")
def identity(e: Emitter, node: Node) -> Any:
    """The input itself."""
    return e.value(node.inputs[0])


@converts("Expand", inputs=2)
def expand(e: Emitter, node: Node) -> Any:
    """Broadcast to the output's shape."""
    return relax.op.broadcast_to(e.value(node.inputs[0]), e.shape(node.outputs[0]))


@converts("Tile", inputs=2)
def tile(e: Emitter, node: Node) -> Any:
    """Repeat along each axis."""
    repeats = e.constant(node, 1, "repeats").tolist()
    return relax.op.tile(e.value(node.inputs[0]), repeats)
