"""Recognizes attention: a product, steps on scores, a softmax over columns, and a second product.

Steps are factors, biases and masks; masks may also follow the softmax. The one form of all patterns
is :class:`~tvmconv.operators.attention_form.Attention`. :data:`ATTENTION` has the tensors that it
reads as arguments, and the attributes

``form``
    The :class:`~tvmconv.operators.attention_form.Attention`. Operands are read where they are in
    memory, through transpositions, slices and reshapes.
``tile``
    The :class:`~tvmconv.operators.attention_form.AttentionTile` that the cost model selected.
``gain``
    The predicted time of separate functions over the predicted time of this one.

A pattern stays as it is if another operator reads its scores or weights, or if the cost model
predicts no gain.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isfinite, prod

from tvmconv.costs.cpu.attention import attention_tile, fused_cycles, separate_cycles
from tvmconv.graph.ir import Graph, Node, Value, fused_node, make_node
from tvmconv.graph.rewrite.attention_operands import Source, sources_of
from tvmconv.graph.rewrite.attention_steps import Chain, chain_to
from tvmconv.graph.rewrite.transposed_operands import PRODUCT
from tvmconv.machines.record import Machine
from tvmconv.operators.attention_form import Attention

ATTENTION = "tvmconv.attention"

# separate products of fewer rows read keys and values in place
_FEWEST_ROWS = 8


def fuse_attention(graph: Graph, machine: Machine) -> None:
    """Replace the second product of each pattern, in place.

    Call it after :func:`~tvmconv.graph.rewrite.transposed_operands.rewrite_products`.
    """
    if machine.vector.scalable:
        return
    counts, users = graph.use_counts(), graph.users()
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _replaced(node, counts, users, machine) or [node]
    # a transposition that is now part of an attention makes the same value a second time
    made = {id(value): node for node in nodes for value in node.outputs if node.op == ATTENTION}
    graph.nodes = [n for n in nodes if all(made.get(id(v), n) is n for v in n.outputs)]
    graph.remove_dead()


def _replaced(
    node: Node, counts: Counter[Value], users: dict[Value, list[Node]], machine: Machine
) -> list[Node]:
    """The nodes that replace a second product; none if it is not part of a pattern."""
    found = _operands(node, counts)
    if found is None:
        return []
    weights, values, flipped = found
    softmax = weights.begin
    scores = chain_to(softmax.args[0], _is_product, counts)
    *outer, first, second = node.output.dims
    result = (*outer, second, first) if flipped else node.output.dims
    known = _form(scores, weights, values, result) if scores is not None else None
    if known is None:
        return []
    form, tensors = known
    tile = attention_tile(form, machine)
    gain = separate_cycles(form, machine) / fused_cycles(form, tile, machine)
    if form.sizes[0] < _FEWEST_ROWS or gain <= 1:
        return []
    last = node
    if flipped:
        made = make_node(ATTENTION, tensors, form.shape, layer=node.layer)
        rank = len(form.shape)
        axes = (*range(rank - 2), rank - 1, rank - 2)
        back = fused_node("permute_dims", [made.output], node, node.layer, {"axes": axes})
        made.attrs = {"form": form, "tile": tile, "gain": gain}
        return [made, back]
    readers = users.get(node.output, [])
    if len(readers) == 1 and counts[node.output] == 1 and readers[0].op == "permute_dims":
        order = _kept_columns(readers[0])
        if order is not None:
            last, form = readers[0], replace(form, order=order)
    attrs = {"form": form, "tile": tile, "gain": gain}
    return [fused_node(ATTENTION, tensors, last, node.layer, attrs)]


def _kept_columns(node: Node) -> tuple[int, ...] | None:
    """The axes of a transposition that leaves the last axis in its place."""
    rank = len(node.output.dims)
    order = tuple(int(axis) % rank for axis in node.attrs.get("axes") or ())
    return order if order and order[-1] == rank - 1 else None


def _axes(node: Node, number: int) -> tuple[int, ...]:
    """The axes in memory of an operand of a product."""
    if node.op == PRODUCT:
        axes: tuple[int, ...] = node.attrs["axes"][number]
        return axes
    return tuple(range(len(node.args[number].dims)))


def _is_product(node: Node) -> bool:
    if node.op not in ("matmul", PRODUCT):
        return False
    values = [*node.args, node.output]
    known = all(v.dtype == "float32" and v.shape is not None and 0 not in v.dims for v in values)
    return known and all(len(value.dims) >= 2 for value in values)


def _operands(node: Node, counts: Counter[Value]) -> tuple[Chain, list[Source], bool] | None:
    """The weights, the values, and whether the product is ``values' @ weights'``."""
    if not _is_product(node):
        return None
    left, right = node.args
    own, other = _axes(node, 0), _axes(node, 1)
    plain = tuple(range(len(own)))
    if own == plain and (weights := chain_to(left, _is_softmax, counts)) is not None:
        return weights, list(sources_of(right, other)), False
    *outer, row, column = other
    if (*outer, column, row) == tuple(range(len(other))):
        weights = chain_to(right, _is_softmax, counts)
        *batch, first, second = own
        if weights is not None:
            return weights, list(sources_of(left, (*batch, second, first))), True
    return None


def _is_softmax(node: Node) -> bool:
    """Whether a node is a softmax over columns."""
    if node.op != "nn.softmax" or node.output.dtype != "float32" or node.output.shape is None:
        return False
    rank = len(node.output.dims)
    return int(node.attrs["axis"]) % rank == rank - 1


def _form(
    scores: Chain, weights: Chain, values: list[Source], result: tuple[int, ...]
) -> tuple[Attention, list[Value]] | None:
    """The attention whose result has a shape, and the tensors that it reads."""
    product = scores.begin
    *batch, rows, columns = product.output.dims
    *outer, height, _ = result
    before = list(scores.steps)
    # the first factors belong to the product
    scale = 1.0
    while before and before[0][0].kind == "multiply" and before[0][1] is None:
        scale *= before.pop(0)[0].value
    left, right = (sources_of(arg, _axes(product, i)) for i, arg in enumerate(product.args))
    # the values have no factor of their own in the kernel
    plain = [source for source in values if source.scale == 1]
    sources = [
        next(source for source in found if source.operand(heads, 0) is not None)
        for found, heads in ((left, batch), (right, batch), (plain, outer))
    ]
    scale *= prod(source.scale for source in sources)
    fits = (height, prod(outer)) == (rows, prod(batch)) and values[-1].rows == columns
    if not fits or not isfinite(scale):
        return None
    steps = (*before, *weights.steps)
    read = [source.value for source in sources] + [tensor for _, tensor in steps if tensor]
    tensors = list(dict.fromkeys(read))
    query, key, value = (
        source.operand(heads, tensors.index(source.value))
        for source, heads in zip(sources, (batch, batch, outer), strict=True)
    )
    assert query and key and value
    first, last = (
        tuple(
            replace(step, number=tensors.index(tensor)) if tensor else step for step, tensor in part
        )
        for part in (before, weights.steps)
    )
    order = tuple(range(len(result)))
    return Attention(query, key, value, tuple(outer), scale, first, last, order), tensors
