"""Writes transpositions between images and rows of tokens as moves of the channels of images.

Transformers reshape an image (N, C, H, W) to (N, C, H*W) and transpose it to tokens (N, H*W, C).
The transposition is done first here, to (N, H, W, C), and the reshape afterwards. Tokens that
become an image are transposed last. Blocks of channels are then copied as whole vectors.
"""

from __future__ import annotations

from tvmconv.graph.ir import Graph, Node, Value, made_by, make_node

# axes of a transposition to (N, H, W, C), and of one back
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_COLUMNS = (0, 2, 1)


def transpose_images(graph: Graph) -> None:
    """Transpose images instead of matrices, in place."""
    users = graph.users()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if len(node.outputs) != 1 or node.output.shape is None or node.output.dtype != "float32":
            return [node]
        if node.op == "permute_dims":
            if (source := _transposed_twice(node)) is not None:
                mapping[node.output] = source
                return []
            return _to_tokens(node, users.get(node.output, []))
        return _to_image(node) if node.op == "reshape" else [node]

    graph.forward(visit)
    graph.remove_dead()


def axes_of(node: Node) -> tuple[int, ...]:
    """The axes of a transposition."""
    return tuple(int(axis) for axis in node.attrs.get("axes") or ())


def _transposed_twice(node: Node) -> Value | None:
    """The operand of two transpositions in succession that undo each other."""
    made = made_by(node.args[0], "permute_dims")
    if made is None or not axes_of(node) or not axes_of(made):
        return None
    order = [axes_of(made)[axis] for axis in axes_of(node)]
    source: Value = made.args[0]
    return source if order == sorted(order) else None


def _to_tokens(node: Node, readers: list[Node]) -> list[Node]:
    """A transposition of a reshaped image; products at run time read transposed operands."""
    made = made_by(node.args[0], "reshape")
    if axes_of(node) != _COLUMNS or made is None or not made.args[0].is_float_map:
        return [node]
    image = made.args[0]
    n, channels, height, width = image.dims
    if made.output.dims != (n, channels, height * width) or any(map(_is_product, readers)):
        return [node]
    before = made_by(image, "permute_dims")
    if before is not None and axes_of(before) == FIRST:
        return [_reshape(before.args[0], node)]
    last = make_node(
        "permute_dims",
        [image],
        (n, height, width, channels),
        layer=node.layer,
        attrs={"axes": LAST},
    )
    return [last, _reshape(last.output, node)]


def _to_image(node: Node) -> list[Node]:
    """A reshape of transposed tokens to an image with as many channels."""
    made = made_by(node.args[0], "permute_dims")
    if made is None or axes_of(made) != _COLUMNS or not node.output.is_float_map:
        return [node]
    tokens = made.args[0]
    n, channels, height, width = node.output.dims
    if tokens.dims != (n, height * width, channels):
        return [node]
    image = make_node("reshape", [tokens], (n, height, width, channels), layer=made.layer)
    node.op, node.args, node.call = "permute_dims", [image.output], None
    node.attrs, node.layer = {"axes": FIRST}, made.layer
    return [image, node]


def _reshape(value: Value, node: Node) -> Node:
    """The node as a reshape of a value; its result stays the same value."""
    node.op, node.args, node.call, node.attrs = "reshape", [value], None, {}
    return node


def _is_product(node: Node) -> bool:
    return node.op == "matmul" and not any(value.is_const for value in node.inputs)
