"""Weights for an instruction that saturates: every pair is safe, nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import V3
from tvmconv.algorithms.direct_bytes import regular_steps
from tvmconv.algorithms.excess import excess_steps, split, words
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel

EVERY = np.arange(-128, 128)
# all 65,536 pairs of weights
PAIRS = np.stack(np.meshgrid(EVERY, EVERY, indexing="ij"), axis=-1).astype(np.int8)


def extremes(pairs):
    """The least and the largest sums of two products with data of 0 to 255."""
    wide = 255 * pairs.astype(np.int64)
    return np.minimum(wide, 0).sum(axis=-1), np.maximum(wide, 0).sum(axis=-1)


def test_no_pair_leaves_16_bits_and_both_parts_add_up():
    safe, rest = split(PAIRS)
    assert safe.dtype == rest.dtype == np.int8
    assert np.array_equal(safe.astype(int) + rest, PAIRS)
    for part in (safe, rest):
        least, largest = extremes(part)
        assert least.min() >= -(2**15)
        assert largest.max() < 2**15


def test_only_pairs_that_may_saturate_are_split():
    least, largest = extremes(PAIRS)
    saturates = (least < -(2**15)) | (largest >= 2**15)
    split_ones = split(PAIRS)[1].any(axis=-1)
    assert np.array_equal(split_ones, saturates)
    assert 0.1 < split_ones.mean() < 0.3


def test_words_hold_four_channels_of_a_tap_for_every_lane():
    weight = np.arange(-128, 112).astype(np.int8).reshape(10, 6, 2, 2)
    found = words(weight, 8, 8)
    assert found.shape == (2, 2, 2, 2, 8, 4)
    assert np.array_equal(found[1, 0, 1, 1, 1], [*weight[9, 4:, 0, 1], 0, 0])
    assert not found[1, ..., 2:, :].any()


def test_steps_are_counted_where_any_lane_has_excess():
    weight = np.zeros((24, 16, 3, 3), np.int8)
    assert excess_steps(weight, 8) == 0
    weight[:8, :2] = 64
    weight[8:16, 1:3] = 127
    assert excess_steps(weight, 8) == 0
    weight[17, 4:6, 1, 2] = 65
    weight[23, 6:8, 1, 2] = -65
    # of three blocks on average, rounded up: 1, 2, 2 + 9
    assert excess_steps(weight, 8) == 1
    weight[23, 12:14, 0, 0] = -128
    assert excess_steps(weight, 8) == 1
    weight[2, 4:6] = 127
    assert excess_steps(weight, 8) == 4


def test_a_kernel_with_too_few_steps_refuses_its_weights():
    workload = Conv2dWorkload.parse("ic64ih7oc32kh1:u8s8s32u8+bias")
    kernel = make_kernel(workload, V3, "direct_bytes")
    weight = np.full(workload.weight_shape, 64, np.int8)
    assert kernel.suited(weight) == kernel
    assert kernel.pack_weight(weight).nbytes < 1.2 * weight.nbytes
    weight[3, ::8] = 65
    with pytest.raises(WorkloadError, match=r"excess=0 .* need 2"):
        kernel.pack_weight(weight)
    more = kernel.suited(weight)
    # one of four blocks has eight
    assert more.config["excess"] == 2
    rows = 4 * (regular_steps(workload, V3) + more.config["excess"])
    assert more.pack_weight(weight).shape == (rows + rows // 8 + 1, 8, 4)
