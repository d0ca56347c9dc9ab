"""Values whose size depends on the data, and how operators pass the size on.

The tensor of such a value has its largest shape. Elements beyond its size hold anything. An
operator that treats the elements along the axis independently keeps the size. A reduction reads
neutral elements beyond it. Any other operator is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.evaluate import trains
from tvmconv.frontend.graph import Extent, OnnxGraph, OnnxNode
from tvmconv.frontend.sizes.maker import Found, Maker, Rule, only, with_input
from tvmconv.frontend.sizes.moves import MOVES

# operators whose operands broadcast, element by element
BROADCASTS = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu",
    "Clip", "Cos", "Cosh", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
    "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN",
    "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg",
    "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
    "ThresholdedRelu", "Where", "Xor",
})  # fmt: skip
# operators that treat images separately
_IMAGES = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "MaxPool",
    "SpaceToDepth",
})  # fmt: skip
# elements that do not change a reduction
_NEUTRAL: dict[str, str | int] = {
    "ArgMax": "lowest", "ArgMin": "highest", "ReduceL1": 0, "ReduceL2": 0, "ReduceMax": "lowest",
    "ReduceMin": "highest", "ReduceProd": 1, "ReduceSum": 0, "ReduceSumSquare": 0,
    "Softmax": "lowest",
}  # fmt: skip
_ONE_AXIS = {"ArgMax": 0, "ArgMin": 0, "LogSoftmax": -1, "Softmax": -1}


def set_outputs(graph: OnnxGraph, names: Sequence[str]) -> None:
    """End a graph at values, and at the sizes that depend on the data."""
    varying = [name for name in names if name in graph.extents]
    for name in varying:
        graph.types[name] = replace(graph.types[name], varying=graph.extents[name].axis)
    graph.outputs = tuple(graph.types[name] for name in names)
    graph.sizes = tuple(graph.extents[name].value for name in varying)


def follow(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> OnnxNode:
    """Give the outputs of a node their sizes; gives the node, perhaps with other inputs.

    ``infos`` are the outputs with their largest shapes.
    """
    extents = make.graph.extents
    names = [name for name in node.inputs if name in extents]
    if not names:
        return node
    rule = _rule(node.op)
    if rule is None:
        raise make.refusal(names[0])
    node, found = rule(make, node, infos)
    if found is not None:
        extents.update((info.name, found) for info in infos)
    return node


def _rule(op: str) -> Rule | None:
    if op in BROADCASTS:
        return _broadcast
    if op in _IMAGES:
        return _images
    if op.startswith("Reduce") or op in _ONE_AXIS:
        return _reduced
    return MOVES.get(op)


def _broadcast(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    """Inputs vary along the same axis by the same size, or do not have the axis."""
    shape = infos[0].shape
    names = [name for name in node.inputs if name]
    fixed = {name for name in names if name not in make.graph.extents}
    found: Extent | None = None
    for name in names:
        extent = make.graph.extents.get(name)
        if extent is None:
            continue
        own = Extent(extent.axis + len(shape) - len(make.graph.shape(name)), extent.value)
        size = make.graph.shape(name)[extent.axis]
        if found not in (None, own) or size != shape[own.axis]:
            raise make.refusal(name)
        found = own
    assert found is not None
    for name in names:
        sizes = make.graph.shape(name)
        axis = found.axis - len(shape) + len(sizes)
        if name in fixed and axis >= 0 and sizes[axis] != 1:
            raise make.refusal(next(n for n in names if n not in fixed))
    return node, found


def _images(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    mixes = node.op == "BatchNormalization" and trains(node)
    if extent.axis or mixes:
        raise make.refusal(name)
    return node, extent


def _reduced(make: Maker, node: OnnxNode, infos: list[TensorInfo]) -> Found:
    name, extent = only(make, node, 0)
    rank = len(make.graph.shape(name))
    axes: tuple[int, ...] = tuple(range(rank))
    keep = bool(node.attrs.get("keepdims", 1))
    if node.op in _ONE_AXIS:
        first = 1 if node.opset < 13 and "oftmax" in node.op else _ONE_AXIS[node.op]
        axis = int(node.attrs.get("axis", first)) % rank
        whole = "oftmax" in node.op
        axes = tuple(range(axis, rank)) if whole and node.opset < 13 else (axis,)
        if whole and extent.axis not in axes:
            return node, extent
        if whole and node.op in _NEUTRAL:
            return with_input(node, make.filled(name, _NEUTRAL[node.op])), extent
        if node.attrs.get("select_last_index", 0) and extent.axis in axes:
            # the neutral elements are last, and equal to the smallest ones
            raise make.refusal(name)
    elif given := node.input(1):
        if given not in make.graph.constants:
            raise make.refusal(name)
        found = make.graph.constants[given].reshape(-1)
        if not found.size and node.attrs.get("noop_with_empty_axes", 0):
            return node, extent
        axes = tuple(int(axis) % rank for axis in found) or axes
    elif "axes" in node.attrs:
        axes = tuple(axis % rank for axis in node.ints("axes", ()))
    elif node.attrs.get("noop_with_empty_axes", 0):
        return node, extent
    if extent.axis not in axes:
        before = 0 if keep else sum(axis < extent.axis for axis in axes)
        return node, Extent(extent.axis - before, extent.value)
    if node.op not in _NEUTRAL:
        raise make.refusal(name)
    return with_input(node, make.filled(name, _NEUTRAL[node.op])), None
