"""Operators that move elements, and products: where the images of their results are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.images.places import Place, Places

# gives the place in all results
Rule = Callable[[Places, OnnxNode], Place]


def _reshape(places: Places, node: OnnxNode) -> Place:
    """Elements keep their order, so an image's first element stays as far from the next one's."""
    place = places.only(node, 0)
    shape, target = (places.graph.shape(name) for name in (node.inputs[0], node.outputs[0]))
    distance = place.inner * prod(shape[place.axis + 1 :])
    found = []
    for axis, size in enumerate(target):
        inner, rest = divmod(distance, max(prod(target[axis + 1 :]), 1))
        if inner and not rest and size % (inner * places.size) == 0 and size:
            found.append(Place(axis, size // (inner * places.size), inner))
    if not found:
        raise places.refusal(node, "merges the images of a batch with other elements")
    # an axis of one image may be any axis of size 1
    return min(found, key=lambda each: (each.outer > 1, each.inner > 1, each.axis))


def _transpose(places: Places, node: OnnxNode) -> Place:
    place = places.only(node, 0)
    rank = len(places.graph.shape(node.inputs[0]))
    order = node.ints("perm", range(rank)[::-1])
    return Place(order.index(place.axis), place.outer, place.inner)


def _concat(places: Places, node: OnnxNode) -> Place:
    every = places.every(node)
    first = next(place for _, place in every if place is not None)
    if int(node.attrs.get("axis", 1)) % len(places.graph.shape(node.outputs[0])) == first.axis:
        raise places.mixes(node, first.axis)
    for name, place in every:
        alone = place is None and places.graph.shape(name)[first.axis] == 1
        if place != first and not alone:
            raise places.refusal(node, "joins parts that hold images along different axes")
    return first


def _repeated(places: Places, node: OnnxNode) -> Place:
    """Expand, Tile and Resize leave the axis of the images alone."""
    place = places.only(node, 0)
    shape, target = (places.graph.shape(name) for name in (node.inputs[0], node.outputs[0]))
    moved = place.shifted(len(target) - len(shape))
    crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops or target[moved.axis] != shape[place.axis]:
        raise places.mixes(node, place.axis)
    return moved


def _gather(places: Places, node: OnnxNode) -> Place:
    graph = places.graph
    data, index = places.of(node, 0), places.of(node, 1)
    axis = int(node.attrs.get("axis", 0)) % len(graph.shape(node.inputs[0]))
    if data is None:
        assert index is not None
        return index.shifted(axis)
    if index is not None:
        raise places.refusal(node, "reads images from its data and its indices")
    if data.axis == axis:
        raise places.mixes(node, axis)
    return data.shifted((len(graph.shape(node.inputs[1])) - 1) * (data.axis > axis))


def _by_element(places: Places, node: OnnxNode) -> Place:
    """All operands hold the images along one axis, which is not the axis of the indices."""
    place = places.only(node, 0, 1, 2)
    axis = int(node.attrs.get("axis", 0)) % len(places.graph.shape(node.inputs[0]))
    if place.axis == axis:
        raise places.mixes(node, axis)
    for name, own in places.every(node):
        if own is None and places.graph.shape(name)[place.axis] != 1:
            raise places.refusal(node, f"reads an input {name!r} without images")
    return place


def _one_hot(places: Places, node: OnnxNode) -> Place:
    place = places.only(node, 0)
    axis = int(node.attrs.get("axis", -1)) % len(places.graph.shape(node.outputs[0]))
    return place.shifted(int(axis <= place.axis))


def _product(places: Places, node: OnnxNode) -> Place:
    """Matrices of either operand, or rows of the first one."""
    graph = places.graph
    rank = len(graph.shape(node.outputs[0]))
    found = set()
    for index in (0, 1):
        place, own = places.of(node, index), len(graph.shape(node.inputs[index]))
        if place is None:
            continue
        rows = index == 0 and place.axis == own - 2
        if own < 2 or rank < 2 or not (rows or place.axis < own - 2):
            raise places.mixes(node, place.axis)
        found.add(place.shifted(rank - own))
    if len(found) != 1:
        raise places.refusal(node, "multiplies operands that hold images along different axes")
    (place,) = found
    for index in (0, 1):
        shape = graph.shape(node.inputs[index])
        axis = place.axis - (rank - len(shape))
        matrix = index == 1 and axis >= len(shape) - 2
        if places.of(node, index) is None and axis >= 0 and shape[axis] != 1 and not matrix:
            raise places.refusal(node, "multiplies operands that hold images along different axes")
    _without_images(places, node, 2)
    return place


def _without_images(places: Places, node: OnnxNode, first: int) -> None:
    """Refuse images in this input and later ones."""
    for index in range(first, len(node.inputs)):
        if places.of(node, index) is not None:
            raise places.refusal(node, f"reads images from its input {node.inputs[index]!r}")


def _gemm(places: Places, node: OnnxNode) -> Place:
    """Rows of the first operand, and of the bias."""
    rows, bias = places.of(node, 0), places.of(node, 2)
    _without_images(places, node, 3)
    if rows is None or places.of(node, 1) is not None:
        raise places.refusal(node, "multiplies by images")
    if rows.axis != int(node.attrs.get("transA", 0)):
        raise places.mixes(node, rows.axis)
    result = Place(0, rows.outer, rows.inner)
    shape = places.graph.shape(node.input(2)) if node.input(2) else ()
    if bias is None:
        fits = len(shape) < 2 or shape[0] == 1
    else:
        fits = bias.shifted(2 - len(shape)) == result
    if not fits:
        raise places.refusal(node, "adds a bias whose rows are not images")
    return result


def _einsum(places: Places, node: OnnxNode) -> Place:
    """One letter of the equation counts the images; all operands with images have it."""
    left, _, right = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")
    terms = left.split(",")
    found = {
        (term[place.axis : place.axis + 1], place.outer, place.inner)
        for (_, place), term in zip(places.every(node), terms, strict=True)
        if place is not None
    }
    ((letter, outer, inner),) = found if len(found) == 1 else {("", 1, 1)}
    alone = [term for (_, place), term in zip(places.every(node), terms, strict=True) if not place]
    if "." in left or not letter or letter not in right or any(letter in term for term in alone):
        raise places.refusal(node, f"multiplies across images by the equation {left}->{right}")
    return Place(right.index(letter), outer, inner)


MOVES: Mapping[str, Rule] = {
    "Concat": _concat,
    "Einsum": _einsum,
    "Expand": _repeated,
    "Flatten": _reshape,
    "Gather": _gather,
    "GatherElements": _by_element,
    "Gemm": _gemm,
    "MatMul": _product,
    "MatMulInteger": _product,
    "OneHot": _one_hot,
    "Reshape": _reshape,
    "Resize": _repeated,
    "ScatterElements": _by_element,
    "Squeeze": _reshape,
    "Tile": _repeated,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
    "Upsample": _repeated,
}
