"""Blocks added to images, against a loop over all elements."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.operators.harness import HOST, run
from tvmconv.operators.columns_to_image import columns_to_image

# image, block, strides, dilations, padding before and after
FORMS = [
    # overlapping vectors, and rows that are shorter than them
    ((9, 40), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((5, 6), (3, 4), (1, 1), (1, 1), (0, 2), (0, 1)),
    # blocks next to each other, with a rest, and with gaps
    ((8, 38), (2, 3), (2, 3), (1, 1), (0, 0), (0, 0)),
    ((9, 11), (2, 2), (3, 4), (1, 1), (1, 1), (0, 0)),
    # elements of one phase that have no place in common
    ((4, 7), (1, 3), (1, 1), (1, 3), (0, 0), (0, 0)),
    ((12, 13), (3, 3), (2, 2), (2, 1), (1, 0), (2, 1)),
    ((4, 5), (1, 4), (1, 2), (1, 3), (0, 4), (0, 4)),
    # frames of a signal, with more elements than have code of their own
    ((90,), (20,), (7,), (1,), (3,), (2,)),
    # more phases than have code of their own
    ((45,), (20,), (19,), (1,), (3,), (0,)),
    ((3, 4, 10), (2, 1, 3), (1, 2, 1), (1, 1, 2), (0, 0, 1), (0, 0, 0)),
]  # fmt: skip


def added(data, image, block, places, strides, dilations, begin):
    result = np.zeros((len(data), *image), data.dtype)
    for tap, element in enumerate(np.ndindex(*block)):
        for place in product(*map(range, places)):
            spots = zip(place, strides, element, dilations, begin, strict=True)
            spot = tuple(p * s + e * d - b for p, s, e, d, b in spots)
            if all(0 <= i < n for i, n in zip(spot, image, strict=True)):
                result[(slice(None), *spot)] += data[(slice(None), tap, *place)]
    return result


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sums_of_blocks(form):
    image, block, strides, dilations, begin, end = form
    sizes = zip(image, block, strides, dilations, begin, end, strict=True)
    places = [(n + b + e - d * (k - 1) - 1) // s + 1 for n, k, s, d, b, e in sizes]
    data = np.random.default_rng(0).integers(-9, 9, (2, prod(block), *places))
    numbers = image, block, places, strides, dilations, begin
    others = ("bool", "float64", "int64", "uint8") if image == (5, 6) else ()
    for dtype in ("float32", *others):
        result = run(lambda x: columns_to_image(x, *numbers), data.astype(dtype), machine=HOST)
        right = added(data.astype(dtype), *numbers)
        np.testing.assert_array_equal(result, right.reshape(result.shape))
