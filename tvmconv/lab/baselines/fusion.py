"""Activations folded into the operator before them, as converters to other formats do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import Case, CaseNode

_FUSABLE = ("Conv", "Gemm", "Add")


@dataclass(frozen=True)
class FusedNode:
    """A node, the activation after it (``""``, ``relu`` or ``relu6``) and their result."""

    node: CaseNode
    activation: str
    output: str


def clip_bounds(case: Case, node: CaseNode) -> tuple[float, float]:
    """Bounds of a Clip, whose opset decides between attributes and inputs."""
    low, high = -np.inf, np.inf
    if "min" in node.attrs or node.input(1):
        low = float(node.attrs["min"] if "min" in node.attrs else case.constant(node.input(1)))
    if "max" in node.attrs or node.input(2):
        high = float(node.attrs["max"] if "max" in node.attrs else case.constant(node.input(2)))
    return low, high


def activation_of(case: Case, node: CaseNode) -> str:
    """``relu`` or ``relu6`` for such nodes, else the empty string."""
    if node.op == "Relu":
        return "relu"
    if node.op == "Clip":
        return {(0.0, 6.0): "relu6", (0.0, np.inf): "relu"}.get(clip_bounds(case, node), "")
    return ""


def fuse(case: Case) -> list[FusedNode]:
    """Every node in order, with Relu and Relu6 folded into a Conv, Gemm or Add before them."""
    uses = case.uses()
    follower = {node.input(0): node for node in case.nodes if activation_of(case, node)}
    steps: list[FusedNode] = []
    folded: set[str] = set()
    for node in case.nodes:
        if node.output in folded:
            continue
        after = follower.get(node.output)
        if node.op in _FUSABLE and after is not None and uses[node.output] == 1:
            steps.append(FusedNode(node, activation_of(case, after), after.output))
            folded.add(after.output)
        else:
            steps.append(FusedNode(node, "", node.output))
    return steps
