"""Brings activations written with several operators to one node each.

After :func:`canonical_activations`, an activation is one of :data:`ACTIVATIONS` with one argument.
Attributes are ``alpha`` for ``nn.leakyrelu``, ``low`` and ``high`` for ``clip``, and ``alpha`` and
``beta`` for ``hardsigmoid``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.graph.ir import Graph, Node, Value
from tvmconv.graph.rewrite.fold import scalar

ACTIVATIONS = (
    "nn.relu",
    "nn.leakyrelu",
    "clip",
    "sigmoid",
    "hardsigmoid",
    "hardswish",
    "nn.silu",
    "nn.gelu",
    "nn.gelu_tanh",
    "tanh",
)
# steps with many operations, and steps that read their operand more than once
_CURVES = ("sigmoid", "silu", "gelu", "gelutanh", "tanh")
_REPEATING = (*_CURVES, "hardswish", "leakyrelu")


def canonical_activations(graph: Graph) -> None:
    """Rewrite the activations of a graph in place; dead parts are left to be removed."""
    counts = graph.use_counts()
    for node in graph.nodes:
        static = len(node.outputs) == 1 and node.output.shape is not None
        if static and node.output.dtype == "float32":
            _one_argument(node, counts)
            _composed(node)


def next_step(node: Node, steps: Sequence[EpilogueOp]) -> EpilogueOp | None:
    """The epilogue step of a node after other steps, or None if no kernel should compute it.

    Kernels repeat a curve's forty operations for each use of its value. A curve of a curve would
    compile for seconds, and run longer than a separate pass.
    """
    step = epilogue_step(node)
    if step is not None and step.kind in _REPEATING and any(s.kind in _CURVES for s in steps):
        return None
    return step


def epilogue_step(node: Node) -> EpilogueOp | None:
    """The epilogue step that computes a canonical activation node, or None for other nodes."""
    attrs = node.attrs
    if node.op == "clip" and "low" in attrs:
        return EpilogueOp("clip", (attrs["low"], attrs["high"]))
    if node.op == "nn.leakyrelu":
        return EpilogueOp("leakyrelu", (float(attrs["alpha"]),))
    if node.op == "hardsigmoid":
        return EpilogueOp("hardsigmoid", (attrs["alpha"], attrs["beta"]))
    plain = ("nn.relu", "sigmoid", "nn.silu", "nn.gelu", "nn.gelu_tanh", "tanh", "hardswish")
    kind = node.op.removeprefix("nn.").replace("_", "")
    return EpilogueOp(kind) if node.op in plain else None


def limits_of(node: Node) -> tuple[float, float] | None:
    """The bounds of a relu or clip node; None for other nodes."""
    if node.op == "nn.relu":
        return 0.0, math.inf
    if node.op == "clip" and "low" in node.attrs:
        return node.attrs["low"], node.attrs["high"]
    return None


def _become(node: Node, op: str, source: Value, **attrs: float) -> None:
    node.op, node.args, node.attrs, node.call = op, [source], dict(attrs), None


def _one_argument(node: Node, counts: Mapping[Value, int]) -> None:
    """Clip, its one-sided forms and ReLU6."""
    if node.op == "nn.relu6":
        _clip(node, node.args[0], 0.0, 6.0, counts)
    elif node.op == "clip" and "low" not in node.attrs:
        low, high = _limit(node.args[1]), _limit(node.args[2])
        if low is not None and high is not None:
            _clip(node, node.args[0], low, high, counts)
    elif node.op in ("maximum", "minimum"):
        for source, bound in (node.args, node.args[::-1]):
            limit = _limit(bound)
            same_shape = isinstance(source, Value) and source.shape == node.output.shape
            if limit is None or not same_shape or source.is_const:
                continue
            if node.op == "maximum":
                _clip(node, source, limit, math.inf, counts)
            else:
                _clip(node, source, -math.inf, limit, counts)
            return


def _limit(value: Any) -> float | None:
    """A scalar constant bound; a NaN is not a bound, because every extreme of it is NaN."""
    number = scalar(value)
    return None if number is None or math.isnan(number) else number


def _clip(node: Node, source: Value, low: float, high: float, counts: Mapping[Value, int]) -> None:
    """Make a node a clip, merged with a clip before it that has no other reader."""
    inner = source.producer
    before = limits_of(inner) if inner is not None and counts[source] == 1 else None
    if inner is not None and before is not None:
        source = inner.args[0]
        low, high = (min(max(bound, low), high) for bound in before)
    if (low, high) == (0, math.inf):
        _become(node, "nn.relu", source)
    else:
        _become(node, "clip", source, low=low, high=high)


def _composed(node: Node) -> None:
    """HardSigmoid from a clip of a*x + b; HardSwish and SiLU from x * f(x)."""
    if node.op == "clip":
        gate = _hard_gate(node, 1.0)
        if gate is not None:
            _become(node, "hardsigmoid", gate[0], alpha=gate[1], beta=gate[2])
    elif node.op in ("multiply", "divide"):
        scaled = _scaled(node)
        if scaled is not None:
            _scaled_gate(node, *scaled)
        elif node.op == "multiply":
            _gated(node)


def _gated(node: Node) -> None:
    """x * sigmoid(x), x * hardsigmoid(x)."""
    for source, gate in (node.args, node.args[::-1]):
        made = gate.producer if isinstance(gate, Value) else None
        if made is None or made.args[0] is not source:
            continue
        if made.op == "sigmoid":
            _become(node, "nn.silu", source)
            return
        if made.op == "hardsigmoid" and _opens_hardswish(made.attrs["alpha"], made.attrs["beta"]):
            _become(node, "hardswish", source)
            return


def _scaled_gate(node: Node, value: Value, scale: float) -> None:
    """ReLU6(x + 3) / 6, and x * ReLU6(x + 3) / 6 with the product first."""
    made = value.producer
    gate = _hard_gate(made, scale) if made is not None else None
    if gate is not None:
        _become(node, "hardsigmoid", gate[0], alpha=gate[1], beta=gate[2])
    elif made is not None and made.op == "multiply":
        for source, other in (made.args, made.args[::-1]):
            inner = other.producer if isinstance(other, Value) else None
            gate = _hard_gate(inner, scale) if inner is not None else None
            if gate is not None and gate[0] is source and _opens_hardswish(*gate[1:]):
                _become(node, "hardswish", source)
                return


def _hard_gate(node: Node, scale: float) -> tuple[Value, float, float] | None:
    """(x, alpha, beta) where ``scale`` times the node is clip(alpha*x + beta, 0, 1)."""
    if node.op != "clip" or node.attrs.get("low") != 0:
        return None
    if not math.isclose(node.attrs["high"] * scale, 1, rel_tol=1e-6):
        return None
    affine = _scalar_affine(node.args[0])
    if affine is None:
        if scale == 1:
            return None
        # ReLU6(x) / 6: the addition before it may be a part of the layer's bias
        affine = node.args[0], 1.0, 0.0
    # FP32 like ONNX's attributes, so that equal layers have equal workloads
    alpha, beta = (float(np.float32(number * scale)) for number in affine[1:])
    return affine[0], alpha, beta


def _opens_hardswish(alpha: float, beta: float) -> bool:
    return math.isclose(alpha, 1 / 6, rel_tol=1e-6) and math.isclose(beta, 0.5, rel_tol=1e-6)


def _scaled(node: Node) -> tuple[Value, float] | None:
    """(x, factor) where the node is factor*x with a scalar constant."""
    split = _split_scalar(node)
    if node.op == "multiply" or split is None:
        return split
    divides = split[0] is node.args[0] and split[1] != 0
    return (split[0], 1 / split[1]) if divides else None


def _scalar_affine(value: Value) -> tuple[Value, float, float] | None:
    """(x, alpha, beta) where the value is alpha*x + beta with scalar constants."""
    alpha, beta, source = 1.0, 0.0, value
    made = source.producer
    if made is None or made.op not in ("add", "multiply"):
        return None
    if made.op == "add":
        split = _split_scalar(made)
        if split is None:
            return None
        source, beta = split
        made = source.producer
    if made is not None and made.op == "multiply":
        split = _split_scalar(made)
        if split is not None:
            source, alpha = split
    return source, alpha, beta


def _split_scalar(node: Node) -> tuple[Value, float] | None:
    for source, other in (node.args, node.args[::-1]):
        number = scalar(other)
        if number is not None and not source.is_const and source.shape == node.output.shape:
            return source, number
    return None
