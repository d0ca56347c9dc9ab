"""Checks that a network treats the images of a batch separately.

The graph of one image and the graph of two are walked node by node. A rule for each kind of
operator says where the images of its results are, or refuses the node. A file that fixes the batch
to one image has one graph: the network is then applied to each image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.evaluate import trains
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.images.along import ALONG
from tvmconv.frontend.images.inputs import BatchError
from tvmconv.frontend.images.moves import MOVES
from tvmconv.frontend.images.places import Place, Places
from tvmconv.frontend.recurrent import OPERANDS, RECURRENT
from tvmconv.frontend.refusals import Refusals
from tvmconv.frontend.sizes.propagation import BROADCASTS
from tvmconv.operators.recurrent_form import CELL, HIDDEN, LENGTHS

# operators whose first axis counts images, and the inputs with images
_IMAGES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            *("AveragePool", "BatchNormalization", "Col2Im", "Conv", "ConvInteger"),
            *("ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalLpPool"),
            *("GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "LpPool"),
            *("MaxPool", "STFT", "SpaceToDepth"),
        ),
        (0,),
    ),
    "DeformConv": (0, 2, 4),
    "GridSample": (0, 1),
}
# inputs that are shapes: they may contain the batch size
_SHAPES = {"Expand": (1,), "Reshape": (1,), "Resize": (1, 2, 3), "Tile": (1,), "Upsample": (1,)}


def check_images(
    single: OnnxGraph, double: OnnxGraph | None, batched: Sequence[bool], refusals: Refusals
) -> None:
    """Refuse nodes unless each image of a batch gets the outputs that it gets alone.

    ``single`` and ``double`` are the graphs for one image and for two. ``batched`` says of each
    input whether its first axis counts images. Images are along the first axis of all outputs.
    Raises ``BatchError`` for an output without images, or of varying size.
    """
    graph = double or single
    places = Places(graph, single, 2 if double else 1)
    if double is not None and (node := _different_node(single, double)):
        error = node.error(
            "the graph up to it depends on the batch size. batch='any' requires one graph",
            "build a model for each batch size that you need, without batch='any'",
        )
        refusals.add(node.name, node.op, error)
        return
    for info, has_images in zip(graph.inputs, batched, strict=True):
        if has_images:
            places.found[info.name] = Place(0)
    unknown: set[str] = set()
    for node in graph.nodes:
        if is_read := unknown.isdisjoint(node.inputs):
            try:
                _find(places, node)
                continue
            except ModelError as error:
                refusals.add(node.name, node.op, error)
        refusals.unread += not is_read
        unknown.update(filter(None, node.outputs))
    refusals.values &= {name for name, place in places.found.items() if place == Place(0)}
    for info in graph.outputs:
        if info.name not in unknown:
            _check_output(places, info, refusals)


def _find(places: Places, node: OnnxNode) -> None:
    """Find the places of images in the results of a node."""
    for name, place in zip(node.outputs, _results(places, node), strict=True):
        if name and place is not None:
            places.found[name] = place
        if name:
            _check_shape(places, node, name)


def _results(places: Places, node: OnnxNode) -> Sequence[Place | None]:
    """Where the images of each result of a node are; None if they are equal for all images."""
    if node.op in RECURRENT and any(place for _, place in places.every(node)):
        return _recurrent(places, node)[: len(node.outputs)]
    return [_result(places, node)] * len(node.outputs)


def _result(places: Places, node: OnnxNode) -> Place | None:
    data = node
    if node.op in _SHAPES:
        data = replace(
            node,
            inputs=tuple(
                "" if index in _SHAPES[node.op] and name in places.graph.constants else name
                for index, name in enumerate(node.inputs)
            ),
        )
    if not any(place for _, place in places.every(data)):
        return _repeated(places, node)
    if node.op in BROADCASTS:
        return _broadcast(places, node)
    if node.op in _IMAGES:
        return _separate(places, node)
    if node.op in ALONG:
        return _along(places, node)
    if node.op in MOVES:
        return MOVES[node.op](places, data)
    if any(isinstance(value, OnnxGraph) for value in node.attrs.values()):
        raise places.refusal(node, "runs a sub-graph for all images together")
    raise places.refusal(node, "may compute with several images")


def _repeated(places: Places, node: OnnxNode) -> Place | None:
    """A value that is equal for all images may be repeated for each."""
    name = node.outputs[0]
    one, two = (graph.types.get(name) for graph in (places.single, places.graph))
    if node.op not in ("Expand", "Tile") or one is None or two is None or one.shape == two.shape:
        return None
    axis = next(
        a for a, sizes in enumerate(zip(one.shape, two.shape, strict=True)) if len(set(sizes)) > 1
    )
    if one.shape[axis] != 1:
        raise places.refusal(node, "repeats elements within an image")
    return Place(axis)


def _broadcast(places: Places, node: OnnxNode) -> Place:
    """All operands hold images along the same axis of the result, or do not have the axis."""
    rank = len(places.graph.shape(node.outputs[0]))
    every = places.every(node)
    moved = {place.shifted(rank - len(places.graph.shape(name))) for name, place in every if place}
    if len(moved) > 1:
        raise places.refusal(node, "reads images along different axes of its inputs")
    (found,) = moved
    for name, place in every:
        shape = places.graph.shape(name)
        axis = found.axis - (rank - len(shape))
        if place is None and axis >= 0 and shape[axis] != 1:
            raise places.refusal(
                node, f"combines each image with another part of its input {name!r}"
            )
    return found


def _separate(places: Places, node: OnnxNode) -> Place:
    place = places.only(node, *_IMAGES[node.op])
    if place.axis:
        raise places.mixes(node, place.axis)
    if node.op == "BatchNormalization" and trains(node):
        raise places.mixes(node, place.axis)
    if node.op == "MaxPool" and any(node.outputs[1:]):
        raise places.refusal(node, "counts indices through all images")
    return place


def _along(places: Places, node: OnnxNode) -> Place:
    place = places.only(node, 0)
    rank = len(places.graph.shape(node.inputs[0]))
    axes = ALONG[node.op](places.graph, node, rank)
    if place.axis in axes:
        raise places.mixes(node, place.axis)
    removed = rank - len(places.graph.shape(node.outputs[0]))
    return place.shifted(-sum(axis < place.axis for axis in axes) if removed else 0)


def _recurrent(places: Places, node: OnnxNode) -> tuple[Place, Place, Place]:
    """Sequences are independent: states, last hidden state and last cell state."""
    first = bool(node.attrs.get("layout", 0))
    axes = {0: 0 if first else 1, OPERANDS[LENGTHS]: 0}
    axes |= {OPERANDS[state]: 0 if first else 1 for state in (HIDDEN, CELL)}
    for index, name in enumerate(node.inputs):
        if not name:
            continue
        place = places.of(node, index)
        if place not in (None, Place(axes.get(index, -1))):
            raise places.mixes(node, place.axis if place else 0)
        if place is None and index in axes and places.graph.shape(name)[axes[index]] != 1:
            raise places.refusal(node, f"reads its input {name!r}, which is equal for all images")
    last = Place(axes[0])
    return Place(0 if first else 2), last, last


def _different_node(single: OnnxGraph, double: OnnxGraph) -> OnnxNode | None:
    """The first node that one of two graphs alone has."""
    for one, two in zip(single.nodes, double.nodes, strict=False):
        if (one.name, one.op) != (two.name, two.op):
            return two
    if len(single.nodes) != len(double.nodes):
        return max(single.nodes, double.nodes, key=len)[-1]
    return None


def _check_shape(places: Places, node: OnnxNode, name: str) -> None:
    """A value for two images has the shape for one but for its place."""
    shape = list(places.graph.shape(name))
    place = places.found.get(name)
    if place is not None:
        shape[place.axis] //= places.size
    one = places.single.types.get(name)
    if one is not None and one.shape != tuple(shape):
        raise places.refusal(node, f"makes {name!r}, whose shape depends on the batch size")


def _check_output(places: Places, info: TensorInfo, refusals: Refusals) -> None:
    place = places.found.get(info.name)
    if place is not None and (place.axis or place.outer != 1):
        node = _moved_by(places, info.name)
        where = f"axis {place.axis} of output {info.name!r}"
        error = places.refusal(node, f"moves the images to {where}; expected axis 0")
        refusals.add(node.name, node.op, error)
        return
    if place is None:
        problem = f"output {info.name!r} is equal for all images"
    elif info.varying is not None:
        problem = f"the size of output {info.name!r} depends on the data"
    else:
        return
    raise BatchError(
        f"batch='any': {problem}. Expected images along axis 0 of all outputs. End the model at "
        "other values by outputs=, or build a model for each batch size that you need."
    )


def _moved_by(places: Places, name: str) -> OnnxNode:
    """The node before a value that moves the images from axis 0."""
    found = None
    for node in reversed(places.graph.nodes):
        if name in node.outputs:
            found = node
            before = [each for each in node.inputs if each in places.found]
            if not before or any(places.found[each] == Place(0) for each in before):
                break
            name = before[0]
    assert found is not None
    return found
