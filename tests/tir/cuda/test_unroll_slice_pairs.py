"""Slices two by two: which loops are written so, and what is left over."""

from __future__ import annotations

import re

import pytest

from tests.cuda import SM_90, check_kernel, default_kernel, source_of

TILE = {"m": 32, "p": 64, "k": 8, "slice": "channels", "split": 1, "pipeline": "double"}
BARRIER = "__syncthreads();"


@pytest.mark.parametrize(
    ("problem", "knobs", "pairs", "barriers"),
    [
        # a slice before the loop, one behind the last barrier, then the warps' sums: 17 iterations
        # are eight pairs and one
        ("ic16ih6oc20kh3ph1+bias", {}, 8, 6),
        ("ic8ih6oc20kh3ph1+bias", {}, 4, 5),
        # windows of vectors
        ("ic72ih8oc20kh1+relu", {}, 4, 5),
        ("ic48ih6oc20kh3ph1", {"m": 64, "split": 6}, 4, 3),
    ],
)
def test_slices_of_few_products_go_two_by_two(problem, knobs, pairs, barriers):
    kernel = check_kernel(problem, "implicit_gemm", **{**TILE, **knobs})
    text = source_of(kernel).text
    assert f"_pair < {pairs};" in text
    assert "tvmconv_turned" not in text
    # nothing asks whose turn it is
    assert not re.search(r"shared\w*\[[^\]]*& 1\)", text)
    assert text.count(BARRIER) == barriers


@pytest.mark.parametrize(
    "knobs",
    [
        # a slice has more than 512 products of a thread; three iterations; blocks of 256 threads
        {"k": 24},
        {"k": 12, "split": 9},
        {"m": 128, "p": 128, "k": 8},
    ],
)
def test_others_are_left(knobs):
    kernel = default_kernel("ic48ih6oc20kh3ph1", "implicit_gemm", SM_90, **{**TILE, **knobs})
    assert "_pair" not in source_of(kernel).text
