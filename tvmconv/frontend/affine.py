"""Folds per-channel affine steps, y = x * scale + shift, at build time.

Such steps are BatchNormalization in inference mode, and Mul, Add, Sub and Div by one constant per
channel. Chains of steps become one step in float64. If only the step reads a convolution, it is
folded into the convolution's weights. Otherwise it is written as one Mul and one Add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tvmconv.core.affine import scale_and_shift
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.evaluate import trains
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode

_ARITHMETIC = {"Add": "add", "Div": "divide", "Mul": "multiply", "Sub": "subtract"}


@dataclass
class _AffineStep:
    """``output = source * scale + shift`` with float64 vectors of one value a channel.

    ``node`` is the operator as the model has it, or ``None`` once steps were merged.
    """

    source: str
    output: str
    scale: Array
    shift: Array
    name: str
    node: OnnxNode | None


def fold_affine(graph: OnnxGraph) -> None:
    """Rewrite the graph in place."""
    uses = graph.use_counts()
    steps: dict[str, _AffineStep] = {}
    # by output name, because a merged step is removed again
    order: dict[str, OnnxNode | _AffineStep] = {}
    for node in graph.nodes:
        step = _as_step(graph, node)
        if step is None:
            order[next(filter(None, node.outputs))] = node
            continue
        before = steps.get(step.source)
        if before is not None and uses[step.source] == 1:
            step.shift = before.shift * step.scale + step.shift
            step.scale = before.scale * step.scale
            step.source, step.node = before.source, None
            del order[before.output]
        steps[step.output] = step
        order[step.output] = step
    _rebuild(graph, order.values(), uses)


def _rebuild(
    graph: OnnxGraph, order: Iterable[OnnxNode | _AffineStep], uses: dict[str, int]
) -> None:
    nodes: list[OnnxNode] = []
    position: dict[str, int] = {}
    for item in order:
        if isinstance(item, _AffineStep):
            index = position.get(item.source)
            if index is not None and uses[item.source] == 1:
                folded = _into_convolution(graph, nodes[index], item)
                if folded is not None:
                    nodes[index] = folded
                    position[item.output] = index
                    continue
            added = _spell_out(graph, item)
        else:
            added = [item]
        for node in added:
            position.update((name, len(nodes)) for name in node.outputs)
            nodes.append(node)
    graph.nodes = nodes


def _as_step(graph: OnnxGraph, node: OnnxNode) -> _AffineStep | None:
    if node.op == "BatchNormalization":
        return _batch_norm(graph, node)
    if node.op not in _ARITHMETIC or "broadcast" in node.attrs:
        return None
    left, right = node.inputs
    constant_first = left in graph.constants
    if constant_first:
        left, right = right, left
    if right not in graph.constants or left in graph.constants:
        return None
    shape = graph.shape(left)
    value = graph.constants[right]
    if graph.types[left].dtype != "float32" or len(shape) < 3 or value.ndim > len(shape):
        return None
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if aligned[1] not in (1, shape[1]) or any(n != 1 for i, n in enumerate(aligned) if i != 1):
        return None
    vector = np.broadcast_to(value.reshape(-1).astype(np.float64), (shape[1],))
    step = scale_and_shift(_ARITHMETIC[node.op], vector, constant_first=constant_first)
    return _AffineStep(left, node.outputs[0], *step, node.name, node) if step else None


def _batch_norm(graph: OnnxGraph, node: OnnxNode) -> _AffineStep | None:
    """The step of an inference-mode BatchNormalization with constant statistics."""
    if trains(node) and node.opset < 7:
        # exporters of that time wrote is_test=0, the default, for inference too
        raise node.error(
            f"it is in training mode, by is_test=0 in operator set {node.opset}",
            "export the model for inference, or with operator set 7 or later",
        )
    if not node.attrs.get("spatial", 1):
        raise node.error("spatial=0 is not supported", "export the model with a newer opset")
    shape = graph.shape(node.inputs[0])
    values = [graph.constants.get(name) for name in node.inputs[1:5]]
    if len(values) != 4 or len(shape) < 2:
        raise node.error("it needs five inputs, the first of rank 2 or more")
    if (
        trains(node)
        or any(v is None for v in values)
        or graph.types[node.inputs[0]].dtype != "float32"
    ):
        return None
    arrays = [np.asarray(v, np.float64) for v in values]
    if any(a.shape != (shape[1],) for a in arrays):
        raise node.error(
            f"its parameters have shapes {[a.shape for a in arrays]}, not ({shape[1]},)"
        )
    gamma, beta, mean, variance = arrays
    spread = variance + float(node.attrs.get("epsilon", 1e-5))
    if not np.all(spread > 0):
        raise node.error(
            f"a variance is {variance.min():g}; with epsilon it must be positive",
            "correct the statistics or epsilon and export the model again",
        )
    scale = gamma / np.sqrt(spread)
    return _AffineStep(node.inputs[0], node.outputs[0], scale, beta - mean * scale, node.name, None)


def _into_convolution(graph: OnnxGraph, node: OnnxNode, step: _AffineStep) -> OnnxNode | None:
    """The convolution with the step in its weights, or ``None`` where it cannot take it."""
    if node.op not in ("Conv", "ConvTranspose") or node.outputs[0] != step.source:
        return None
    weight = graph.constants.get(node.inputs[1])
    bias_name = node.input(2)
    bias = graph.constants.get(bias_name) if bias_name else np.zeros(len(step.scale))
    if weight is None or bias is None:
        return None
    if node.op == "Conv":
        factor = step.scale.reshape(-1, *[1] * (weight.ndim - 1))
        scaled = weight * factor
    else:
        groups = int(node.attrs.get("group", 1))
        grouped = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        factor = step.scale.reshape(groups, 1, weight.shape[1], *[1] * (weight.ndim - 2))
        scaled = (grouped * factor).reshape(weight.shape)
    inputs = [node.inputs[0], node.inputs[1], bias_name]
    if np.any(step.scale != 1):
        inputs[1] = graph.add_constant(f"{node.inputs[1]}.folded", scaled.astype(np.float32))
    shifted = bias * step.scale + step.shift
    if bias_name or np.any(shifted):
        name = f"{bias_name or node.name + '.bias'}.folded"
        inputs[2] = graph.add_constant(name, shifted.astype(np.float32))
    return replace(node, inputs=tuple(inputs), outputs=(step.output,))


def _spell_out(graph: OnnxGraph, step: _AffineStep) -> list[OnnxNode]:
    """The step as Mul and Add, or the model's own operator where nothing was merged."""
    if step.node is not None:
        return [step.node]
    info = graph.types[step.output]
    shape = (1, -1, *[1] * (len(info.shape) - 2))
    parts = []
    if np.any(step.scale != 1) or not np.any(step.shift):
        parts.append(("Mul", step.scale))
    if np.any(step.shift):
        parts.append(("Add", step.shift))
    nodes = []
    source = step.source
    for i, (op, vector) in enumerate(parts):
        last = i == len(parts) - 1
        target = step.output if last else f"{step.output}.scaled"
        graph.types[target] = TensorInfo(target, info.shape, info.dtype)
        value = vector.astype(np.float32).reshape(shape)
        constant = graph.add_constant(f"{step.name}.{op.lower()}", value)
        name = f"{step.name}.{op.lower()}"
        nodes.append(OnnxNode(name, op, (source, constant), (target,), {}, graph.opset))
        source = target
    return nodes
