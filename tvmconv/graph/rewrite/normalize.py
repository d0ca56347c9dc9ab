"""Brings a graph to the few forms that matching, layout planning and emission know.

Every convolution with constant weights becomes an ``nn.conv2d`` node with explicit padding. Its
arguments are data, weight and an optional bias; per-channel arithmetic after it is folded in. Every
matrix product with a constant right side becomes a ``dense`` node of the same form.
"""

from __future__ import annotations

import math
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tvmconv.graph.ir import Graph, Node, Value, constant, make_node
from tvmconv.graph.match import IN_FLOAT
from tvmconv.graph.quantized.byte_products import fuse_byte_products
from tvmconv.graph.quantized.dense import dense_as_convolution, note_wide_products
from tvmconv.graph.quantized.layers import fuse_integer_layers, is_weight
from tvmconv.graph.quantized.moved_constants import move_constants
from tvmconv.graph.quantized.pool import fuse_averages
from tvmconv.graph.quantized.regions import dequantize_per_reader, fold_dequantized, move_roundings
from tvmconv.graph.quantized.sums import fuse_integer_sums
from tvmconv.graph.quantized.tables import tabulate
from tvmconv.graph.rewrite.activations import canonical_activations
from tvmconv.graph.rewrite.affine import fold_affine
from tvmconv.graph.rewrite.attention import fuse_attention
from tvmconv.graph.rewrite.channels_last import move_channels
from tvmconv.graph.rewrite.extrema import fuse_extrema
from tvmconv.graph.rewrite.fold import fold_constants, scalar
from tvmconv.graph.rewrite.norm_pools import fuse_norm_pools
from tvmconv.graph.rewrite.one_dimensional import raise_signals
from tvmconv.graph.rewrite.padding import merge_padding, pad_ceilings
from tvmconv.graph.rewrite.patterns import fuse_patterns
from tvmconv.graph.rewrite.resized_channels import convolve_before_resize
from tvmconv.graph.rewrite.reversed_sums import reverse_sums
from tvmconv.graph.rewrite.row_gathers import fuse_picks, pick_along_rows
from tvmconv.graph.rewrite.row_moves import merge_row_moves
from tvmconv.graph.rewrite.statistics import fuse_statistics
from tvmconv.graph.rewrite.tokens import transpose_images
from tvmconv.graph.rewrite.transposed import lower_transposed
from tvmconv.graph.rewrite.transposed_operands import rewrite_products
from tvmconv.graph.rewrite.unread_taps import drop_unread_taps
from tvmconv.graph.rewrite.volumes import lower_volumes
from tvmconv.machines.device import Device
from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Machine


def normalize(graph: Graph, machine: Device, requantize: str = "float") -> None:
    """Rewrite a graph in place.

    ``requantize`` selects how INT8 kernels rescale accumulators: ``"float"`` or ``"fixed"``.
    """
    fold_constants(graph)
    pad_ceilings(graph)
    move_constants(graph)
    fold_dequantized(graph, is_weight)
    graph.forward(_split_batch_norm)
    # INT8 layers are found in between: they read matrices, FP32 layers read tensors of any rank
    graph.forward(partial(_simplify, ranks=2 if isinstance(machine, Machine) else None))
    merge_duplicates(graph)
    canonical_activations(graph)
    graph.remove_dead()
    if isinstance(machine, Machine):
        fuse_statistics(graph)
        graph.remove_dead()
        move_channels(graph)
        fuse_picks(graph)
        fuse_norm_pools(graph)
        graph.remove_dead()
    fuse_patterns(graph)
    reverse_sums(graph)
    raise_signals(graph)
    graph.forward(_cancel_reshape)
    graph.remove_dead()
    if isinstance(machine, Machine):
        transpose_images(graph)
    # GPUs have no INT8 kernels: they round where the model does, and accumulate in FP32
    if not isinstance(machine, Machine):
        _note_quantized(graph)
        fold_dequantized(graph, lambda _value, _users: False)
    elif any(node.op in ("quantize", "dequantize") for node in graph.nodes):
        _quantized(graph, machine, requantize)
    if isinstance(machine, Machine):
        fuse_integer_sums(graph, machine)
        fuse_byte_products(graph, machine)
        graph.forward(partial(_simplify, ranks=None))
    lower_transposed(graph, machine.channel_block)
    merge_padding(graph)
    graph.remove_dead()
    drop_unread_taps(graph)
    lower_volumes(graph)
    fold_affine(graph)
    # reshapes around arithmetic that is folded now
    graph.forward(_cancel_reshape)
    graph.remove_dead()
    if isinstance(machine, Machine):
        convolve_before_resize(graph)
        # several layers of joined channels join the same rest
        merge_duplicates(graph)
        fuse_extrema(graph)
        rewrite_products(graph)
        fuse_attention(graph, machine)
        merge_row_moves(graph)
        pick_along_rows(graph)


def _note_quantized(graph: Graph) -> None:
    """Set the attribute :data:`IN_FLOAT` of quantized layers on a GPU."""
    for node in graph.nodes:
        if node.op.startswith("nn.conv") or node.op == "matmul":
            made = node.args[0].producer
            if made is not None and made.op == "dequantize":
                node.attrs[IN_FLOAT] = "GPUs have no 8-bit kernels"


def _quantized(graph: Graph, machine: Machine, requantize: str) -> None:
    """Find INT8 regions and the layers in them that INT8 kernels compute."""
    lower_transposed(graph, machine.channel_block)
    merge_padding(graph)
    graph.remove_dead()
    lower_volumes(graph)
    dtype = multiply_of_bytes(machine).data
    move_roundings(graph, dtype)
    dense_as_convolution(graph)
    note_wide_products(graph)
    move_roundings(graph, dtype)
    merge_duplicates(graph)
    fuse_patterns(graph)
    graph.forward(_cancel_reshape)
    graph.remove_dead()
    fuse_integer_layers(graph, machine, requantize)
    fuse_averages(graph)
    tabulate(graph, machine)
    graph.remove_dead()
    dequantize_per_reader(graph)
    graph.remove_dead()
    fold_dequantized(graph, lambda _value, _users: False)
    # products whose constant was kept for an INT8 layer
    graph.forward(partial(_simplify, ranks=2))


def _split_batch_norm(node: Node, mapping: dict[Value, Value]) -> list[Node]:
    """Batch normalization with constant statistics -> multiply and add per channel."""
    if node.op != "nn.batch_norm" or node.attrs.get("axis") != 1 or node.attrs.get("training"):
        return [node]
    parameters, source = [node.const(i) for i in range(1, 5)], node.args[0]
    if any(p is None for p in parameters) or source.shape is None:
        return [node]
    gamma, beta, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    scale = 1 / np.sqrt(variance + node.attrs["epsilon"])
    if node.attrs.get("scale", True):
        scale = scale * gamma
    shift = (beta if node.attrs.get("center", True) else 0.0) - mean * scale
    along = (1, -1) + (1,) * (len(source.shape) - 2)
    steps: list[Node] = []
    value = source
    for op, vector in (("multiply", scale), ("add", shift)):
        factor = constant(vector.reshape(along), f"{node.layer}_{op}", "float32")
        steps.append(make_node(op, [value, factor], source.shape, layer=node.layer))
        value = steps[-1].output
    mapping[node.outputs[0]] = value
    # the running statistics are the node's other results
    mapping |= {node.outputs[1]: node.args[3], node.outputs[2]: node.args[4]}
    return steps


# maximum elements of a dense weight with fewer outputs than a block
_MOST_PADDED = 2**23
_SHAPE_ONLY = ("reshape", "expand_dims", "squeeze", "flatten")
# reductions of two stacked tensors, as operators of both
_OF_TWO = {"sum": "add", "max": "maximum", "min": "minimum"}
# operands that change nothing
_NEUTRAL = {"add": 0, "multiply": 1}
# bounds without an effect
_UNBOUNDED = {"maximum": -math.inf, "minimum": math.inf}


def _simplify(node: Node, mapping: dict[Value, Value], ranks: int | None) -> list[Node]:
    """One form for shape changes, identities, reductions and matrix products.

    ``ranks`` is the required rank of the inputs of fully connected layers, None for any.
    """
    if len(node.outputs) != 1 or node.output.shape is None or not node.inputs:
        return [node]
    source = node.args[0]
    if node.op in _SHAPE_ONLY and source.shape is not None:
        node.op, node.args, node.attrs, node.call = "reshape", [source], {}, None
    elif node.op == "matmul" and _is_dense(node, ranks):
        node.op, node.call = "dense", None
    elif node.op == "nn.adaptive_avg_pool2d" and tuple(node.attrs["output_size"]) == (1, 1):
        if node.attrs["layout"] == "NCHW":
            node.op, node.args, node.call = "mean", [source], None
            node.attrs = {"axis": (2, 3), "keepdims": True}
    elif node.op in ("mean", "max") and source.is_float_map:
        axes = node.attrs.get("axis")
        if axes is not None and sorted(a % 4 for a in axes) == [2, 3]:
            node.attrs = {**node.attrs, "axis": (2, 3)}
    elif node.op in _OF_TWO:
        _reduced_stack(node)
    elif node.op in _NEUTRAL and len(node.inputs) == 2:
        kept = _unchanged_operand(node)
        if kept is not None:
            mapping[node.output] = kept
            return []
    elif node.op == "nn.dropout" or _changes_nothing(node, source):
        mapping[node.output] = source
        return []
    return [node]


def _unchanged_operand(node: Node) -> Value | None:
    """The operand to which zeros are added, or which is multiplied by ones."""
    for kept, other in (node.args, node.args[::-1]):
        same = (kept.shape, kept.dtype) == (node.output.shape, node.output.dtype)
        if same and other.data is not None and np.all(other.data == _NEUTRAL[node.op]):
            return kept
    return None


def _changes_nothing(node: Node, source: Value) -> bool:
    """Whether a node broadcasts to the shape its operand has, or has an infinite bound."""
    if node.op in _UNBOUNDED and scalar(node.args[1]) != _UNBOUNDED[node.op]:
        return False
    return node.op in ("broadcast_to", *_UNBOUNDED) and source.shape == node.output.shape


def _is_dense(node: Node, ranks: int | None) -> bool:
    data, weight = node.args
    return (
        node.output.dtype == "float32"
        and data.dtype == "float32"
        and data.shape is not None
        and (len(data.shape) == ranks if ranks else len(data.shape) >= 2)
        and weight.is_const
        and len(weight.dims) == 2
        and not data.is_const
        # padding few outputs to a block multiplies the memory of the weight
        and (weight.dims[1] >= 16 or prod(weight.dims) <= _MOST_PADDED)
    )


def _reduced_stack(node: Node) -> None:
    """``sum(stack(a, b), axis=0)`` -> ``add(a, b)``, as TVM's importer writes Sum, Max and Min."""
    stack = node.args[0].producer
    if stack is None or stack.op != "stack" or node.attrs.get("keepdims"):
        return
    parts = stack.inputs
    if tuple(node.attrs.get("axis") or ()) != (0,) or stack.attrs.get("axis") not in (0, None):
        return
    if len(parts) == 2 and all(part.shape == node.output.shape for part in parts):
        node.op, node.args, node.attrs, node.call = _OF_TWO[node.op], parts, {}, None


def _cancel_reshape(node: Node, mapping: dict[Value, Value]) -> list[Node]:
    """Merge successive reshapes and remove reshapes to the same shape."""
    if node.op != "reshape":
        return [node]
    while (made := node.args[0].producer) is not None and made.op == "reshape":
        node.args = [made.args[0]]
    if node.args[0].shape == node.output.shape:
        mapping[node.output] = node.args[0]
        return []
    return [node]


def merge_duplicates(graph: Graph) -> None:
    """Common subexpressions: compute equal calls on equal arguments once."""
    seen: dict[Any, Node] = {}

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        key = _identity(node)
        twin = seen.setdefault(key, node) if key is not None else node
        if twin is node:
            return [node]
        mapping.update(zip(node.outputs, twin.outputs, strict=True))
        return []

    graph.forward(visit)


# operators whose calls with equal arguments may differ
_IMPURE = ("call", "opaque", "multinomial_from_uniform")


def _identity(node: Node) -> Any:
    if node.op in _IMPURE or "call" in node.op or not node.inputs:
        return None

    def key(arg: Any) -> Any:
        if isinstance(arg, Value):
            return id(arg)
        if isinstance(arg, list):
            return tuple(key(item) for item in arg)
        return str(arg)

    shapes = tuple(value.shape for value in node.outputs)
    return (node.op, key(node.args), repr(sorted(node.attrs.items())), shapes)
