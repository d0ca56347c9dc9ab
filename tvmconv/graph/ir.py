"""The graph form in which convolutions are matched, laid out and replaced.

A :class:`Graph` holds a sequence of Relax bindings as nodes and values. Nodes that no rewrite
changes keep their Relax call, which is emitted again. Constants are numpy arrays; derived constants
stay in float64 until they are emitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.unexpected import reported

Array = npt.NDArray[Any]
# operators of two tensors, element by element
ARITHMETIC = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@dataclass(eq=False)
class Value:
    """One tensor. ``shape`` is None where it is not static; ``data`` is set for constants."""

    shape: tuple[int, ...] | None
    dtype: str
    name: str = ""
    data: Array | None = None
    producer: Node | None = None

    @property
    def is_const(self) -> bool:
        """Known at build time."""
        return self.data is not None

    @property
    def is_float_map(self) -> bool:
        """A static float32 activation of rank 4, (N, C, H, W)."""
        return self.dtype == "float32" and self.shape is not None and len(self.shape) == 4

    @property
    def is_map(self) -> bool:
        """A static activation of rank 4, (N, C, H, W), of float32 or of 8-bit integers."""
        known = self.dtype in ("float32", "int8", "uint8")
        return known and self.shape is not None and len(self.shape) == 4

    @property
    def dims(self) -> tuple[int, ...]:
        """The static shape; only for values that have one."""
        assert self.shape is not None, f"{self.name} has no static shape"
        return self.shape


# a tensor, a tuple of tensors, or another Relax expression (shape, number)
Arg = Any


@dataclass(eq=False)
class Node:
    """One operator.

    ``op`` is Relax's name without ``relax.``, or a name of this package. ``call`` is the Relax
    expression of the node, or None for nodes made by a rewrite. ``layer`` is the name in reports.
    """

    op: str
    args: list[Arg]
    outputs: list[Value] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    call: Any = None
    layer: str = ""

    def __str__(self) -> str:
        return f"node {self.layer!r} ({self.op})"

    @property
    def inputs(self) -> list[Value]:
        """Every tensor the node reads, in argument order."""
        return list(_flatten(self.args))

    @property
    def output(self) -> Value:
        """The result of a single-output node."""
        assert len(self.outputs) == 1, f"{self.op} has {len(self.outputs)} outputs"
        return self.outputs[0]

    def replace_input(self, old: Value, new: Value) -> None:
        """Read ``new`` wherever ``old`` was read."""
        self.args = [_rename(arg, {old: new}) for arg in self.args]

    def other(self, value: Value) -> Value:
        """The other operand of a node with two operands."""
        left, right = self.args
        found: Value = right if left is value else left
        return found

    def const(self, index: int) -> Array | None:
        """The data of a constant argument, or None."""
        arg = self.args[index]
        return arg.data if isinstance(arg, Value) else None


def _flatten(args: Sequence[Arg]) -> Iterator[Value]:
    for arg in args:
        if isinstance(arg, Value):
            yield arg
        elif isinstance(arg, list):
            yield from _flatten(arg)


def _rename(arg: Arg, mapping: Mapping[Value, Value]) -> Arg:
    if isinstance(arg, list):
        return [_rename(item, mapping) for item in arg]
    while isinstance(arg, Value) and arg in mapping:
        arg = mapping[arg]
    return arg


Visitor = Callable[[Node, dict[Value, Value]], Iterable[Node]]


@dataclass(eq=False)
class Graph:
    """Inputs, nodes in execution order and outputs (a value may be listed twice)."""

    inputs: list[Value]
    nodes: list[Node]
    outputs: list[Value]

    def use_counts(self) -> Counter[Value]:
        """Reads of each value; being a graph output counts as a read."""
        counts: Counter[Value] = Counter(self.outputs)
        for node in self.nodes:
            counts.update(node.inputs)
        return counts

    def users(self) -> dict[Value, list[Node]]:
        """Nodes that read each value, in order, once per node."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                users.setdefault(value, []).append(node)
        return users

    def replace_value(self, old: Value, new: Value) -> None:
        """Let every reader of ``old``, the outputs included, read ``new``."""
        for node in self.nodes:
            if old in node.inputs:
                node.replace_input(old, new)
        self.outputs = [new if value is old else value for value in self.outputs]

    def forward(self, visit: Visitor) -> None:
        """Rewrite all nodes in one pass in execution order.

        ``visit`` is called with each node and a mapping, and returns the nodes that replace the
        node. It may add ``old value -> new value`` to the mapping. Arguments of later nodes follow.
        """
        mapping: dict[Value, Value] = {}
        nodes: list[Node] = []
        for node in self.nodes:
            if mapping:
                node.args = [_rename(arg, mapping) for arg in node.args]
            with reported(f"rewriting {node}"):
                nodes += visit(node, mapping)
        self.nodes = nodes
        self.outputs = [_rename(value, mapping) for value in self.outputs]

    def remove_dead(self) -> None:
        """Drop nodes whose results nobody reads."""
        live = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(value in live for value in node.outputs):
                kept.append(node)
                live.update(node.inputs)
        self.nodes = kept[::-1]


def constant(data: Array, name: str = "", dtype: str | None = None) -> Value:
    """A constant; ``dtype`` is the type it is emitted with, by default its own."""
    return Value(tuple(data.shape), dtype or str(data.dtype), name, data)


def make_node(
    op: str,
    args: list[Arg],
    shape: tuple[int, ...],
    *,
    dtype: str = "float32",
    name: str = "",
    layer: str = "",
    attrs: dict[str, Any] | None = None,
) -> Node:
    """A node with one output and without a Relax call."""
    node = Node(op, args, [], attrs or {}, None, layer)
    node.outputs = [Value(shape, dtype, name, None, node)]
    return node


def fused_node(op: str, args: list[Arg], last: Node, layer: str, attrs: dict[str, Any]) -> Node:
    """A node that computes the result of a chain of nodes, of which ``last`` is the last one."""
    node = Node(op, args, last.outputs, attrs, None, layer)
    node.output.producer = node
    return node


def make_conv(
    data: Value,
    weight: Value,
    shape: tuple[int, ...],
    layer: str,
    *,
    strides: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    dtype: str = "float32",
) -> Node:
    """An ``nn.conv2d`` node of NCHW data and an OIHW weight."""
    attrs = {
        "strides": strides,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
    }
    return make_node("nn.conv2d", [data, weight], shape, dtype=dtype, layer=layer, attrs=attrs)


def make_volume_conv(
    data: Value,
    weight: Value,
    shape: tuple[int, ...],
    layer: str,
    *,
    padding: tuple[int, ...],
    groups: int,
) -> Node:
    """An ``nn.conv3d`` node of NCDHW data and an OIDHW weight, with stride 1."""
    attrs = {
        "strides": (1, 1, 1),
        "padding": padding,
        "dilation": (1, 1, 1),
        "groups": groups,
        "data_layout": "NCDHW",
        "kernel_layout": "OIDHW",
    }
    return make_node("nn.conv3d", [data, weight], shape, layer=layer, attrs=attrs)


def is_plain_conv(node: Node) -> bool:
    """Whether a node is an ``nn.conv2d`` with the layouts of :func:`make_conv`."""
    return (
        node.op == "nn.conv2d"
        and node.attrs["data_layout"] == "NCHW"
        and node.attrs["kernel_layout"] == "OIHW"
        and node.attrs.get("out_layout") in (None, "", "NCHW")
    )


def pixelwise(node: Node, data: Value, weight: Value, dtype: str = "float32") -> Node:
    """A fully connected layer as a convolution, with a kernel of one pixel or of a whole image."""
    rows, columns = (data.dims[axis] - weight.dims[axis] + 1 for axis in (2, 3))
    shape = (data.dims[0], weight.dims[0], rows, columns)
    return make_conv(data, weight, shape, node.layer, dtype=dtype)


def made_by(value: Arg, op: str) -> Node | None:
    """The node that computes a value, if its operator is ``op``."""
    made = value.producer if isinstance(value, Value) else None
    return made if made is not None and made.op == op else None


def per_channel(value: Value, channels: int, rank: int = 4) -> Array | None:
    """A constant as one float64 number per channel of an (N, C, ...) tensor of that rank.

    Constants with one element are repeated. None if the constant varies along other axes.
    """
    if value.data is None or value.data.dtype.kind != "f" or value.data.ndim > rank:
        return None
    shape = (1,) * (rank - value.data.ndim) + value.data.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != 1):
        return None
    if shape[1] not in (1, channels):
        return None
    return np.broadcast_to(value.data.astype(np.float64).reshape(-1), (channels,))
