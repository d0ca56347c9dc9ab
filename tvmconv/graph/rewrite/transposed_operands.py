"""Lets matrix products read the operands of transpositions.

Exporters write transpositions before a product, for example of heads and rows of an attention. The
product packs its columns and reads its rows one by one, so it can read any order.
"""

from __future__ import annotations

from tvmconv.graph.ir import Graph, Node, Value, made_by, make_node

# ``matmul`` with the attribute ``axes``: for each operand the axis of its memory of each axis
PRODUCT = "tvmconv.matmul"
_TYPES = ("float32", "float64")


def rewrite_products(graph: Graph) -> None:
    """Bring products of two operands computed at run time to fast forms, in place.

    Transpositions are merged, a left vector becomes a matrix with one row, and a product over one
    element becomes a multiplication.
    """
    graph.forward(_rewritten)
    graph.remove_dead()


def _rewritten(node: Node, mapping: dict[Value, Value]) -> list[Node]:
    if node.op != "matmul" or not _is_plain(node):
        return [node]
    left, right = node.args
    steps = left.dims[-1]
    if len(left.dims) == 1:
        if len(right.dims) < 2:
            return [node]
        row = make_node("reshape", [left], (1, steps))
        shape = (*node.output.dims[:-1], 1, node.output.dims[-1])
        product = make_node("matmul", [row.output, right], shape, layer=node.layer)
        back = make_node("reshape", [product.output], node.output.dims)
        mapping[node.output] = back.output
        return [row, *_rewritten(product, mapping), back]
    if len(right.dims) < 2:
        return [node]
    if steps == 1:
        node.op, node.call, node.attrs = "multiply", None, {}
        return [node]
    sources = [_source(value) for value in node.args]
    if any(value is not source for value, (source, _) in zip(node.args, sources, strict=True)):
        node.op, node.call = PRODUCT, None
        node.args = [source for source, _ in sources]
        node.attrs = {"axes": tuple(axes for _, axes in sources)}
    return [node]


def _is_plain(node: Node) -> bool:
    """Whether both operands are of one vector type and known shapes, and computed at run time."""
    values = [*node.args, node.output]
    known = all(v.dtype == node.output.dtype and v.shape is not None for v in values)
    return known and node.output.dtype in _TYPES and not any(v.is_const for v in node.args)


def _source(value: Value) -> tuple[Value, tuple[int, ...]]:
    """The tensor before all transpositions of an operand, and its axis for each operand's axis."""
    axes = tuple(range(len(value.dims)))
    while (made := made_by(value, "permute_dims")) is not None:
        given = made.attrs.get("axes")
        order = tuple(reversed(range(len(axes)))) if given is None else tuple(map(int, given))
        axes = tuple(order[axis] % len(axes) for axis in axes)
        value = made.args[0]
    return value, axes
