"""Operators that keep every element and only change the shape."""

from __future__ import annotations

from math import prod

from tvmconv.frontend.convert.registry import converts
from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.windows import disputed_size
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr


@converts("Flatten", "Reshape", "Squeeze", "Unsqueeze", attrs="allowzero axes axis shape")
def reshape(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """A reshape to the output's shape, which the reader has inferred."""
    shape, target = e.shape(node.inputs[0]), e.shape(node.outputs[0])
    if prod(shape) != prod(target):
        problem, cause = f"{shape} cannot become {target}", disputed_size(e.graph, node)
        if cause:
            raise node.error(f"{problem}: {cause}", "give that node pads instead")
        raise node.misfit(problem)
    return relax.op.reshape(e.value(node.inputs[0]), target)


@converts("Identity")
def identity(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The input itself."""
    return e.value(node.inputs[0])


@converts("Expand", inputs=2)
def expand(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Broadcast to the output's shape."""
    return relax.op.broadcast_to(e.value(node.inputs[0]), e.shape(node.outputs[0]))


@converts("Tile", inputs=2)
def tile(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Repeat along each axis, as a broadcast over a new axis before each old one."""
    shape = e.shape(node.inputs[0])
    repeats = [int(r) for r in e.constant(node, 1, "repeats")]
    pairs = [(r, n) for r, n in zip(repeats, shape, strict=True)]
    x = e.emit(relax.op.reshape(e.value(node.inputs[0]), [m for _, n in pairs for m in (1, n)]))
    wide = e.emit(relax.op.broadcast_to(x, [m for pair in pairs for m in pair]), "wide")
    return relax.op.reshape(wide, e.shape(node.outputs[0]))
