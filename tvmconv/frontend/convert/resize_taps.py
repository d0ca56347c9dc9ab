"""Coordinates of a resized axis, and the elements and weights of which it is made.

Indices of taps may be outside of the axis. Source: the ONNX operator specification, Resize-19.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.frontend.graph import Array, OnnxNode

# bytes for a tap of an antialiasing filter, and for the arrays from which it is made
_SMOOTH_BYTES = 64


def coordinates_of(
    node: OnnxNode,
    transform: str,
    size: int,
    length: int,
    scale: float,
    kind: type[np.floating[Any]],
) -> Array:
    """Source coordinate of each output element, computed in the type ``kind``.

    ``length`` is the output's size. The specification's formulas for ``align_corners`` and
    ``half_pixel_symmetric`` take the product of input size and scale instead.
    """
    x = np.arange(length, dtype=kind)
    # in float32, as the output's size is computed
    wanted = kind(np.float32(size) * np.float32(scale))
    factor = kind(scale)
    if transform == "asymmetric":
        return x / factor
    if transform == "align_corners":
        return x * kind(size - 1) / (wanted - 1) if wanted != 1 else np.zeros(length)
    if transform == "pytorch_half_pixel":
        return (x + 0.5) / factor - 0.5 if length > 1 else np.zeros(length)
    if transform == "half_pixel_symmetric":
        offset = size / 2 * (1 - length / wanted)
        return offset + (x + 0.5) / factor - 0.5
    if transform == "half_pixel":
        return (x + 0.5) / factor - 0.5
    raise node.error(
        f"coordinate_transformation_mode={transform!r} is not supported", "use half_pixel"
    )


def cropped_coordinates(size: int, length: int, scale: float, start: float, end: float) -> Array:
    """Source coordinates of a region from ``start`` to ``end``, where 1 is the last element."""
    wanted = float(np.float32(size) * np.float32(scale))
    if wanted == 1:
        x = np.full(length, (end - start) / 2)
    else:
        x = np.arange(length) * (end - start) / (wanted - 1)
    return (x + start) * (size - 1)


def nearest_indices(node: OnnxNode, rounding: str, coordinates: Array, size: int) -> Array:
    """The element nearest to each coordinate, by one of ONNX's rules."""
    functions: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda c: np.ceil(c - 0.5),
        "round_prefer_ceil": lambda c: np.floor(c + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if rounding not in functions:
        raise node.error(f"nearest_mode={rounding!r} is unknown", "use round_prefer_floor")
    # the half that is added must not round
    exact = coordinates.astype(np.float64)
    result: Array = np.clip(functions[rounding](exact), 0, size - 1).astype(np.int64)
    return result


def linear_taps(coordinates: Array) -> list[tuple[Array, Array]]:
    """The two neighbors of each coordinate."""
    low = np.floor(coordinates)
    part = coordinates - low
    return [(low, 1 - part), (low + 1, part)]


def cubic_taps(node: OnnxNode, coordinates: Array) -> list[tuple[Array, Array]]:
    """The four neighbors of each coordinate."""
    a = float(node.attrs.get("cubic_coeff_a", -0.75))
    low = np.floor(coordinates)
    t = coordinates - low
    weights = [
        ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
        ((a + 2) * t - (a + 3)) * t * t + 1,
        ((a + 2) * (1 - t) - (a + 3)) * (1 - t) ** 2 + 1,
        ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a,
    ]
    return [(low + i - 1, w) for i, w in enumerate(weights)]


def in_order(axes: list[int], shape: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
    """Axes in the order in which they are resized one after the other.

    Gathers along rows are the slowest part. Axes that shrink come before them, and axes that grow
    come after them.
    """

    def growth(axis: int) -> float:
        return 1.0 if axis == len(shape) - 1 else target[axis] / shape[axis]

    return sorted(axes, key=growth)


def smooth_taps(
    e: RelaxWriter, node: OnnxNode, coordinates: Array, scale: float, mode: str
) -> list[tuple[Array, Array]]:
    """Taps of the filter of a mode, made as much longer as the image becomes smaller."""
    reach = 2 if mode == "cubic" else 1
    first = int(np.floor(-reach / scale)) + 1
    e.reserve(node, _SMOOTH_BYTES * (2 - 2 * first) * len(coordinates))
    low = np.floor(coordinates)
    offsets = np.arange(first, 2 - first)[:, None]
    distance = np.abs(offsets - (coordinates - low)) * scale
    if mode == "cubic":
        a = float(node.attrs.get("cubic_coeff_a", -0.75))
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    else:
        weights = np.maximum(1 - distance, 0)
    return list(zip(low + offsets, weights / weights.sum(0), strict=True))
