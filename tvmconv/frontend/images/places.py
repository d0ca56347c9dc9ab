"""The axis of each value that holds the images of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvmconv.core.errors import ModelError
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode

_REMEDY = "build a model for each batch size that you need, without batch='any'"


@dataclass(frozen=True)
class Place:
    """The axis that holds the images.

    An axis that a Reshape has merged counts ``outer`` elements, then images, then ``inner``
    elements. Its size is ``outer`` times the number of images times ``inner``.
    """

    axis: int
    outer: int = 1
    inner: int = 1

    def shifted(self, axes: int) -> Place:
        """The same after so many axes are added before it."""
        return Place(self.axis + axes, self.outer, self.inner)


@dataclass
class Places:
    """The places of images in the values of a graph that was read for a batch of ``size``.

    ``single`` is the graph of one image. A value without a place is equal for all images.
    """

    graph: OnnxGraph
    single: OnnxGraph
    size: int
    found: dict[str, Place] = field(default_factory=dict)

    def of(self, node: OnnxNode, index: int) -> Place | None:
        """The place in an input of a node."""
        name = node.input(index)
        if name in self.graph.constants and name not in self.found:
            return self._in_constant(node, name)
        return self.found.get(name)

    def every(self, node: OnnxNode) -> list[tuple[str, Place | None]]:
        """The inputs that a node has, with their places."""
        places = (self.of(node, index) for index in range(len(node.inputs)))
        return [(name, place) for name, place in zip(node.inputs, places, strict=True) if name]

    def only(self, node: OnnxNode, *indices: int) -> Place:
        """The place in one input, or the equal ones in several; refuses images in other inputs."""
        places = set()
        for index, name in enumerate(node.inputs):
            place = self.of(node, index) if name else None
            if place is not None and index not in indices:
                raise self.refusal(node, f"reads images from its input {name!r}")
            places |= {place} - {None}
        if len(places) != 1:
            raise self.refusal(node, "reads images along different axes of its inputs")
        (place,) = places
        assert place is not None
        return place

    def refusal(self, node: OnnxNode, why: str) -> ModelError:
        """The error of an operator that does not treat images separately."""
        return node.error(
            f"it {why}. batch='any' requires operators that treat images separately", _REMEDY
        )

    def mixes(self, node: OnnxNode, axis: int) -> ModelError:
        """The error of an operator that computes along the axis of the images."""
        return self.refusal(node, f"computes along axis {axis}, which holds the images of a batch")

    def _in_constant(self, node: OnnxNode, name: str) -> Place | None:
        """A constant is the same for any batch, or repeats one image's along an axis."""
        value, one = self.graph.constants[name], self.single.constants.get(name)
        if one is not None and _equal(value, one):
            return None
        if one is not None and value.ndim == one.ndim:
            differing = [a for a in range(value.ndim) if value.shape[a] != one.shape[a]]
            if len(differing) == 1:
                (axis,) = differing
                if _equal(value, np.concatenate([one] * self.size, axis)):
                    return Place(axis, inner=one.shape[axis])
        raise self.refusal(node, f"reads the constant {name!r}, which depends on the batch size")


def _equal(left: Array, right: Array) -> bool:
    # also for NaN
    return left is right or (
        left.shape == right.shape
        and left.dtype == right.dtype
        and left.tobytes() == right.tobytes()
    )
