"""Finds each convolution and dense layer with the chain of element-wise steps after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.decision import Unscheduled
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.ir import Graph, Node, Value, fused_node, is_plain_conv
from tvmconv.graph.rewrite.activations import next_step

CONV, DENSE = "tvmconv.conv2d", "tvmconv.dense"
# attribute of a quantized layer: why no INT8 kernel computes it
IN_FLOAT = "in_float"
# attribute of an INT8 layer: why its sums are rescaled in FP32 although fixed point was requested
BY_FLOAT = "by_float"


def fuse_layers(graph: Graph) -> None:
    """Replace layers and their epilogues by one node each.

    A ``tvmconv.conv2d`` node has the attribute ``workload``, a ``tvmconv.dense`` node ``epilogue``.
    Arguments are data, OIHW (or input x output) weight, and the epilogue's bias and residual. The
    node replaces the last fused step, so that the residual is computed before it. A value with a
    second reader, or a result of the graph, ends the chain.

    If two convolutions are added, the addition becomes part of the later one. The earlier one is
    the residual.
    """

    def match(node: Node, readers: Readers) -> tuple[Node, list[Node]] | None:
        if not (_is_conv(node) or _is_dense(node)):
            return None
        chain, steps, residual = _chain(node, readers)
        return _fused(node, chain, steps, residual), chain

    replace_layers(graph, match)


@dataclass
class Readers:
    """Who reads each value, while layers are matched from the last to the first."""

    counts: Mapping[Value, int]
    users: Mapping[Value, list[Node]]
    absorbed: set[int] = field(default_factory=set)

    def only(self, value: Value) -> Node | None:
        """The only node that reads a value, if it has one result and belongs to no layer yet."""
        if self.counts[value] != 1 or value not in self.users:
            return None
        reader = self.users[value][0]
        free = len(reader.outputs) == 1 and id(reader) not in self.absorbed
        return reader if free else None


def replace_layers(
    graph: Graph, match: Callable[[Node, Readers], tuple[Node, list[Node]] | None]
) -> None:
    """Replace layers and the chains after them by one node each, at the end of the chain.

    ``match`` is called for each node, the last one first. It returns the new node and the chain, or
    None.
    """
    readers = Readers(graph.use_counts(), graph.users())
    position = {id(node): index for index, node in enumerate(graph.nodes)}
    placed: dict[int, Node] = {}
    for node in reversed(graph.nodes):
        found = match(node, readers) if id(node) not in readers.absorbed else None
        if found is None:
            continue
        fused, chain = found
        last = chain[-1] if chain else node
        placed[position[id(last)]] = fused
        readers.absorbed.update(id(part) for part in (node, *chain))
    graph.nodes = [
        placed.get(index, node)
        for index, node in enumerate(graph.nodes)
        if index in placed or id(node) not in readers.absorbed
    ]


def unscheduled(graph: Graph) -> tuple[Unscheduled, ...]:
    """The convolutions that :func:`fuse_layers` has left, in execution order, and why."""
    left = [node for node in graph.nodes if node.op.startswith("nn.conv")]
    return tuple(Unscheduled(n.layer, n.op.removeprefix("nn."), _obstacle(n)) for n in left)


def _obstacle(node: Node) -> str:
    data, weight = node.args[:2]
    if weight.data is None:
        return "its weight is computed at run time, only constant ones are packed"
    if data.is_const:
        return "its input is a constant"
    if other := sorted({v.dtype for v in (data, weight, node.output)} - {"float32"}):
        types = ", ".join(other)
        return f"it computes in {types}, kernels in float32: convert the model to float32"
    return "no kernel has its layout or rank"


def _is_conv(node: Node) -> bool:
    return (
        is_plain_conv(node)
        and node.args[0].is_float_map
        and not node.args[0].is_const
        and node.output.is_float_map
        and node.const(1) is not None
    )


def _is_dense(node: Node) -> bool:
    return node.op == "dense" and node.const(1) is not None


def _chain(node: Node, readers: Readers) -> tuple[list[Node], list[EpilogueOp], Value | None]:
    """Fusable followers in order, their steps, and the residual operand."""
    chain: list[Node] = []
    steps: list[EpilogueOp] = []
    residual: Value | None = None
    value = node.output
    while (follower := readers.only(value)) is not None:
        step = next_step(follower, steps)
        if step is None:
            other = residual_of(follower, value) if residual is None else None
            if other is None:
                break
            residual, step = other, EpilogueOp("add")
        chain.append(follower)
        steps.append(step)
        value = follower.output
    return chain, steps, residual


def residual_of(node: Node, value: Value) -> Value | None:
    """The other operand of an addition of two tensors of one shape."""
    if node.op != "add" or node.output.shape != value.shape:
        return None
    other = node.other(value)
    same = other.shape == value.shape and other.dtype == value.dtype
    return other if same and not other.is_const and other is not value else None


def _fused(node: Node, chain: list[Node], steps: list[EpilogueOp], residual: Value | None) -> Node:
    has_bias = len(node.args) > 2
    epilogue = ((EpilogueOp("bias"),) if has_bias else ()) + tuple(steps)
    args = [*node.args, *([residual] if residual is not None else [])]
    op, attrs = DENSE, dict[str, Any](epilogue=epilogue)
    if node.op == "nn.conv2d":
        op, attrs = CONV, {"workload": workload_of(node, epilogue)}
    if IN_FLOAT in node.attrs:
        attrs[IN_FLOAT] = node.attrs[IN_FLOAT]
    return fused_node(op, args, [node, *chain][-1], node.layer, attrs)


def reads_padding(node: Node) -> bool:
    """Whether an ``nn.conv2d`` node pads its planes, or the volumes that they belong to."""
    depth: dict[str, Any] = node.attrs.get("depth", {})
    return any((*node.attrs["padding"], depth.get("pad_front"), depth.get("pad_back")))


def taps_inside(node: Node, axis: int) -> npt.NDArray[np.bool_]:
    """Whether each tap of an ``nn.conv2d`` reads the image: (outputs, taps) of a spatial axis."""
    attrs, size = node.attrs, node.args[0].dims[2 + axis]
    outputs, taps = node.output.dims[2 + axis], node.args[1].dims[2 + axis]
    firsts = np.arange(outputs)[:, None] * attrs["strides"][axis] - attrs["padding"][axis]
    places = firsts + np.arange(taps) * attrs["dilation"][axis]
    return (places >= 0) & (places < size)


def workload_of(
    node: Node, epilogue: tuple[EpilogueOp, ...], types: DataTypes = FLOAT32
) -> Conv2dWorkload:
    """The workload of an ``nn.conv2d`` node with blocked input."""
    n, channels, height, width = node.args[0].dims
    out_channels, _, rows, kernel_w = node.args[1].dims
    depth: dict[str, Any] = node.attrs.get("depth", {})
    top, left, bottom, right = node.attrs["padding"]
    stride_h, stride_w = node.attrs["strides"]
    dilation_h, dilation_w = node.attrs["dilation"]
    return Conv2dWorkload(
        batch=n // depth.get("in_depth", 1),
        in_channels=channels,
        in_height=height,
        in_width=width,
        out_channels=out_channels,
        kernel_h=rows // depth.get("kernel_d", 1),
        kernel_w=kernel_w,
        stride_h=stride_h,
        stride_w=stride_w,
        pad_top=top,
        pad_left=left,
        pad_bottom=bottom,
        pad_right=right,
        dilation_h=dilation_h,
        dilation_w=dilation_w,
        groups=node.attrs["groups"],
        epilogue=epilogue,
        types=types,
        **depth,
    )
