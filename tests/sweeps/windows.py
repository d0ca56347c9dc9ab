"""How pools, TopK, Resize and GridSample are drawn: see :mod:`tests.sweeps.draws`."""

from __future__ import annotations

from math import log, log2, prod
from typing import Any

import numpy as np

from tests.sweeps.draws import DIVISION, Case, Draw, Draws, drawn

DRAWS: Draws = {}


def _volume(draw: Draw) -> list[int]:
    """Sizes of one to three axes of images, after batch and channels."""
    rank = draw.pick(1, 2, 2, 2, 3)
    if rank == 2:
        return list(draw.image())
    lead = [1, draw.size(2 ** draw.random.uniform(0, 7))]
    sizes = [draw.size(2 ** draw.random.uniform(2, 12 / rank)) for _ in range(rank)]
    while prod(lead + sizes) > draw.largest:
        sizes[0] = max(1, sizes[0] // 2)
        lead[1] = max(1, lead[1] // 2)
    return lead + sizes


@drawn(DRAWS, "MaxPool", "AveragePool", "LpPool")
def pool(draw: Draw) -> Case:
    shape = _volume(draw)
    image = shape[2:]
    most = draw.pick(3, 3, 7, 32)
    kernel = [draw.random.randint(1, min(most, size)) for size in image]
    strides = [draw.pick(1, 1, 2, k) for k in kernel]
    pads = [draw.pick(0, k // 2) for k in kernel]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2}
    # two operations for each doubling of the window, along each axis
    steps = sum(2 * log2(k) + 1 for k in kernel)
    if draw.operator == "LpPool":
        # a square of each value, a square root of each result
        results = [
            (size + 2 * pad - k) // stride + 1
            for size, pad, k, stride in zip(image, pads, kernel, strides, strict=True)
        ]
        steps += 1 + 2 * DIVISION * prod(results) / prod(image)
    return draw.case(tuple(shape), **attributes, work=float(prod(shape)) * steps)


@drawn(DRAWS, "TopK")
def best(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(shape)
    size = shape[axis]
    k = min(size, max(1, round(2 ** draw.random.uniform(0, min(10, log2(size) + 1)))))
    # each element is compared; those better than the best so far are collected, and the best ones
    # sorted, which no vector does
    collected, sorted_ = k * (1 + log(size / k)), k * (log2(k) + 4)
    work = 6 * float(prod(shape)) + prod(shape) / size * (8 * collected + sorted_) * 16
    largest = draw.pick(0, 1)
    return draw.case(shape, np.array([k]), axis=axis, largest=largest, outputs=2, work=work)


@drawn(DRAWS, "Resize")
def resize(draw: Draw) -> Case:
    shape = _volume(draw)
    scale = draw.pick(0.5, 2, 2, 3, 2 ** draw.random.uniform(-1, 1.5))
    target = [*shape[:2], *(max(1, round(size * scale)) for size in shape[2:])]
    mode = draw.pick("linear", "linear", "nearest", "cubic" if len(shape) == 4 else "linear")
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode]
    transforms = ["half_pixel", "asymmetric", "pytorch_half_pixel"]
    if 1 not in target[2:]:
        transforms.append("align_corners")
    transform = draw.pick(*transforms)
    # an element of a gather counts as much as a vector
    gathered = 16 * taps * min(prod(shape) * scale, prod(target))
    work = float(gathered + 2 * taps * prod(target) * (len(shape) - 2))
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    return draw.case(tuple(shape), None, None, np.array(target), work=work, **attributes)


@drawn(DRAWS, "GridSample")
def sample(draw: Draw) -> Case:
    n, c, h, w = draw.image(64)
    rows, columns = (draw.size(2 ** draw.random.uniform(2, 7)) for _ in range(2))
    mode = draw.pick("linear", "linear", "nearest")
    taps = 1 if mode == "nearest" else 4
    work = float(n * rows * columns * (40 + 16 * taps * c))
    return draw.case((n, c, h, w), (n, rows, columns, 2), mode=mode, work=work)
