"""Recognizes attention: a product, a scale, biases, a softmax over columns, and a second product.

:data:`ATTENTION` has the tensors that its form reads as arguments, and the attributes

``form``
    The :class:`~tvmconv.operators.attention_form.Attention`. Operands are read where they are in
    memory, through transpositions and slices.
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
from tvmconv.graph.ir import Graph, Node, Value, fused_node, made_by, make_node
from tvmconv.graph.rewrite.attention_operands import Source, factor_of, source_of
from tvmconv.graph.rewrite.transposed_operands import PRODUCT
from tvmconv.machines.record import Machine
from tvmconv.operators.attention_form import Attention, Operand

ATTENTION = "tvmconv.attention"

# separate products of fewer rows read keys and values in place
_FEWEST_ROWS = 8

_Bias = tuple[Value, tuple[int, ...]]


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
    found = _operands(node)
    if found is None:
        return []
    weights, value, flipped = found
    softmax = _softmax(weights, counts)
    scores = _Scores.of(softmax.args[0], counts) if softmax else None
    if softmax is None or scores is None:
        return []
    *outer, first, second = node.output.dims
    known = scores.form(value, (*outer, second, first) if flipped else node.output.dims)
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


def _operands(node: Node) -> tuple[Value, Source, bool] | None:
    """The weights, the values, and whether the product is ``values' @ weights'``."""
    if not _is_product(node):
        return None
    left, right = node.args
    own, other = _axes(node, 0), _axes(node, 1)
    if own == tuple(range(len(own))) and _is_weights(left):
        return left, source_of(right, other), False
    *outer, row, column = other
    if (*outer, column, row) == tuple(range(len(other))) and _is_weights(right):
        *batch, first, second = own
        return right, source_of(left, (*batch, second, first)), True
    return None


def _is_weights(value: Value) -> bool:
    while (made := made_by(value, "reshape")) is not None:
        value = made.args[0]
    return made_by(value, "nn.softmax") is not None


def _softmax(value: Value, counts: Counter[Value]) -> Node | None:
    """The softmax over columns that makes the weights, if only one node reads them."""
    columns = value.dims[-1]
    while counts[value] == 1 and (made := made_by(value, "reshape")) is not None:
        value = made.args[0]
    made = made_by(value, "nn.softmax")
    if made is None or counts[value] != 1 or value.dtype != "float32":
        return None
    axis = int(made.attrs["axis"]) % len(value.dims)
    return made if axis == len(value.dims) - 1 and value.dims[-1] == columns else None


class _Scores:
    """The first product, with its scale and biases."""

    def __init__(self, product: Node, scale: float, biases: list[_Bias]) -> None:
        self._product, self._scale, self._biases = product, scale, biases

    @classmethod
    def of(cls, value: Value, counts: Counter[Value]) -> _Scores | None:
        """The scores that are the operand of a softmax; None for other values."""
        scale = 1.0
        biases: list[_Bias] = []
        while value.shape is not None and counts[value] == 1 and value.producer is not None:
            made = value.producer
            if _is_product(made):
                return cls(made, scale, biases[::-1])
            if (scaled := factor_of(made)) is not None:
                value, number = scaled
                scale *= number
            elif made.op == "reshape" and made.args[0].dims[-1:] == value.dims[-1:]:
                value = made.args[0]
            elif made.op == "add" and scale == 1:
                parts = [v for v in made.args if v.shape == value.shape and _leads(v)]
                if len(parts) != 1 or made.other(parts[0]).dtype != "float32":
                    return None
                biases.append((made.other(parts[0]), value.dims))
                value = parts[0]
            else:
                return None
        return None

    def form(self, value: Source, result: tuple[int, ...]) -> tuple[Attention, list[Value]] | None:
        """The attention with these values and this shape, and the tensors that it reads."""
        product = self._product
        sources = [source_of(arg, _axes(product, i)) for i, arg in enumerate(product.args)]
        sources.append(value)
        tensors = list(dict.fromkeys([s.value for s in sources] + [b for b, _ in self._biases]))
        query, key, values = (
            Operand(tensors.index(s.value), s.dims, s.axes, s.offsets) for s in sources
        )
        *batch, rows, columns = product.output.dims
        *outer, height, _ = result
        scale = self._scale * prod(source.scale for source in sources)
        # the values have no factor of their own in the kernel
        fits = (height, prod(outer)) == (rows, prod(batch)) and value.dims[-2] == columns
        if not fits or value.scale != 1 or not isfinite(scale):
            return None
        biases = tuple((tensors.index(bias), dims) for bias, dims in self._biases)
        order = tuple(range(len(result)))
        form = Attention(query, key, values, tuple(batch), tuple(outer), scale, biases, order)
        return form, tensors


def _leads(value: Value) -> bool:
    """Whether a value is a product of two matrices, with factors, biases and other shapes."""
    made = value.producer
    if made is None or not made.args or _is_product(made):
        return made is not None and _is_product(made)
    if (scaled := factor_of(made)) is not None:
        return _leads(scaled[0])
    if made.op == "reshape":
        return _leads(made.args[0])
    return made.op == "add" and any(_leads(v) for v in made.args if v.shape == value.shape)
