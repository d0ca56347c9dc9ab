"""Sums that warps share: every lane is named, and takes part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T

from tests.cuda import SM_90, Source, default_kernel, run_kernel, source_of
from tests.tir.rewrites import check, check_same
from tvmconv.core.errors import ArtifactError
from tvmconv.tir.cuda.full_warps import FullWarps

# lanes diverge at the last values of the sum: 8 channels by 9 elements are not a multiple of 32
PARTED = "mb2ic8ih9oc40kh3ph1+bias+relu"


@pytest.mark.parametrize("share", [32, 64])
def test_every_lane_is_named(share):
    kernel = default_kernel(PARTED, "direct", SM_90, share=share)
    text = source_of(kernel).text
    assert "__shfl_down_sync" in text
    assert "__activemask" not in text
    assert "(uint)4294967295" in text
    actual, expected = run_kernel(kernel)
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def test_lanes_that_happen_to_be_active_are_not_enough():
    """As TVM writes it: right where a warp is together again, which nothing promises."""
    kernel = default_kernel(PARTED, "direct", SM_90, share=32)
    source = source_of(kernel)
    text = source.text.replace("(uint)4294967295", "__activemask()")
    assert text != source.text
    with pytest.raises(ArtifactError, match=r"lane \d+, that the shuffle's mask does not name"):
        run_kernel(kernel, Source(text, source.launches, source.shapes))


def _mask(threads: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def mask(x: T.Buffer((64,), "uint32")):
        with T.launch_thread("threadIdx.x", threads) as t:
            x[t] = T.tvm_warp_activemask()

    return mask


def test_the_mask_of_full_warps_names_all_lanes():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "uint32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            x[t] = T.uint32(0xFFFFFFFF)

    check(FullWarps(), _mask(64), expected)


def test_a_block_with_a_partial_warp_stays():
    check_same(FullWarps(), _mask(48))
