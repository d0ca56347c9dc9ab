"""Brings activations written with several operators to one node each.

After :func:`canonical_activations` an activation is one of :data:`ACTIVATIONS`, each with the
tensor as its only argument; attributes are ``alpha`` of ``nn.leakyrelu``, ``low`` and ``high`` of
``clip``, ``alpha`` and ``beta`` of ``hardsigmoid``.
"""

from __future__ import annotations

import math

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.graph.fold import scalar
from tvmconv.graph.ir import Graph, Node, Value

ACTIVATIONS = (
    "nn.relu",
    "nn.leakyrelu",
    "clip",
    "sigmoid",
    "hardsigmoid",
    "hardswish",
    "nn.silu",
    "tanh",
)


def canonical_activations(graph: Graph) -> None:
    """Rewrite the activations of a graph in place; dead parts are left to be removed."""
    for node in graph.nodes:
        static = len(node.outputs) == 1 and node.output.shape is not None
        if static and node.output.dtype == "float32":
            _one_argument(node)
            _composed(node)


def epilogue_step(node: Node) -> EpilogueOp | None:
    """The epilogue step that computes a canonical activation node, or None for other nodes."""
    attrs = node.attrs
    if node.op == "clip" and "low" in attrs:
        return EpilogueOp("clip", (attrs["low"], attrs["high"]))
    if node.op == "nn.leakyrelu":
        return EpilogueOp("leakyrelu", (float(attrs["alpha"]),))
    if node.op == "hardsigmoid":
        return EpilogueOp("hardsigmoid", (attrs["alpha"], attrs["beta"]))
    kind = {
        "nn.relu": "relu",
        "sigmoid": "sigmoid",
        "nn.silu": "silu",
        "tanh": "tanh",
        "hardswish": "hardswish",
    }.get(node.op)
    return EpilogueOp(kind) if kind else None


def _become(node: Node, op: str, source: Value, **attrs: float) -> None:
    node.op, node.args, node.attrs, node.call = op, [source], dict(attrs), None


def _one_argument(node: Node) -> None:
    """Clip, its one-sided forms and ReLU6."""
    if node.op == "nn.relu6":
        _become(node, "clip", node.args[0], low=0.0, high=6.0)
    elif node.op == "clip" and "low" not in node.attrs:
        low, high = scalar(node.args[1]), scalar(node.args[2])
        if low is not None and high is not None:
            _clip(node, node.args[0], low, high)
    elif node.op in ("maximum", "minimum"):
        for source, bound in (node.args, node.args[::-1]):
            limit = scalar(bound)
            same_shape = isinstance(source, Value) and source.shape == node.output.shape
            if limit is not None and same_shape and not source.is_const:
                bounds = (limit, math.inf) if node.op == "maximum" else (-math.inf, limit)
                _clip(node, source, *bounds)
                return


def _clip(node: Node, source: Value, low: float, high: float) -> None:
    if (low, high) == (0, math.inf):
        _become(node, "nn.relu", source)
    else:
        _become(node, "clip", source, low=low, high=high)


def _composed(node: Node) -> None:
    """HardSigmoid from clip(a*x + b, 0, 1); HardSwish and SiLU from x * f(x)."""
    if node.op == "clip" and (node.attrs.get("low"), node.attrs.get("high")) == (0.0, 1.0):
        affine = _scalar_affine(node.args[0])
        if affine:
            source, alpha, beta = affine
            _become(node, "hardsigmoid", source, alpha=alpha, beta=beta)
    elif node.op == "multiply":
        for source, gate in (node.args, node.args[::-1]):
            made = gate.producer if isinstance(gate, Value) else None
            if made is None or made.args[0] is not source:
                continue
            if made.op == "sigmoid":
                _become(node, "nn.silu", source)
                return
            if made.op == "hardsigmoid" and _is_hardswish_gate(made):
                _become(node, "hardswish", source)
                return


def _is_hardswish_gate(node: Node) -> bool:
    return math.isclose(node.attrs["alpha"], 1 / 6, rel_tol=1e-6) and node.attrs["beta"] == 0.5


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
