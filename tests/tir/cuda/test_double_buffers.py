"""Double buffers in shared memory: which loops toggle between the two."""

from __future__ import annotations

import re

import pytest

from tests.cuda import SM_90, default_kernel, run_kernel, source_of

# slices of fewer products go two by two, and do not ask
LAYER = "ic96ih4oc20kh3ph1+bias"
TILE = {"m": 32, "p": 64, "k": 32, "slice": "channels", "split": 1, "pipeline": "double"}


def kernel_of(**knobs: object):
    return default_kernel(LAYER, "implicit_gemm", SM_90, **{**TILE, **knobs})


def test_both_operands_step_where_they_are_read_and_written():
    kernel = kernel_of()
    text = source_of(kernel).text
    # weights of 32 rows and columns of 64 pixels, halves of 32 values of 4 bytes
    steps = re.findall(r"places_ptr\[(\d)\] = \(places_ptr\[\1\] \^ (\d+)\);", text)
    assert sorted(int(half) for _, half in steps) == [4096, 4096, 8192, 8192]
    # nothing else asks whose turn it is
    assert not re.search(r"shared\w*\[[^\]]*& 1\)", text)
    actual, expected = run_kernel(kernel)
    assert abs(actual - expected).max() <= 1e-5 * abs(expected).max()


@pytest.mark.parametrize(
    "knobs",
    [
        # halves that are no power of two; one buffer; 128 registers, and loads that are tested
        {"k": 24},
        {"pipeline": "single"},
        {"m": 128, "p": 128, "k": 16},
    ],
)
def test_others_are_left(knobs):
    assert "tvmconv_turned" not in source_of(kernel_of(**knobs)).text
