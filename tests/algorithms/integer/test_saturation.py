"""Weights for an instruction that saturates: every pair is safe, nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import V3
from tvmconv.algorithms.integer.byte_rows import regular_steps
from tvmconv.algorithms.integer.saturation import (
    MASKS,
    ORDERS,
    complemented,
    complements,
    dwords,
    excess_by_orders,
    excess_steps,
    in_order,
    split,
    variants,
)
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel

EVERY = np.arange(-128, 128)
# all 65,536 pairs of weights
PAIRS = np.stack(np.meshgrid(EVERY, EVERY, indexing="ij"), axis=-1).astype(np.int8)


def extremes(pairs):
    """The smallest and the largest sums of two products with data of 0 to 255."""
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


def test_dwords_hold_four_channels_of_a_tap_for_every_lane():
    weight = np.arange(-128, 112).astype(np.int8).reshape(10, 6, 2, 2)
    found = dwords(weight, 8, 8)
    assert found.shape == (2, 2, 2, 2, 8, 4)
    assert np.array_equal(found[1, 0, 1, 1, 1], [*weight[9, 4:, 0, 1], 0, 0])
    assert not found[1, ..., 2:, :].any()


def test_complements_make_dwords_safe_that_have_no_sums_of_two_signs():
    """Every pair of weights in one lane, next to every lane that is safe in one way alone."""
    lanes = np.zeros((*PAIRS.shape[:2], 3, 2, 2), np.int8)
    lanes[:, :, 1, 0] = PAIRS
    masks = complements(lanes)
    assert masks.shape == (256, 256)
    assert set(np.unique(masks)) == {0, 1}
    changed, missing = complemented(lanes, masks)
    needed = split(lanes)[1].any(axis=(-3, -2, -1))
    # a weight of -128 in the second place has no opposite
    assert np.array_equal(needed & (masks == 0), needed & (PAIRS[..., 1] == -128))
    assert not split(changed)[1].any(axis=(-3, -2, -1))[masks > 0].any()
    data = np.array([[200, 3], [255, 255]])
    for first, second in data:
        exact = PAIRS.astype(int) @ np.array([first, second])
        taken = np.where(masks, 255 - second, second)
        pair = changed[:, :, 1, 0].astype(int)
        assert np.array_equal(pair[..., 0] * first + pair[..., 1] * taken + missing[..., 1], exact)


def test_a_dword_keeps_its_data_where_no_complement_is_safe_for_all_lanes():
    lanes = np.zeros((4, 8, 2, 2), np.int8)
    lanes[0, 2, 1] = lanes[1, 2, 1] = lanes[2, 2] = lanes[3, 5] = 127
    lanes[1, 7, 1] = -127, 127
    lanes[2, 7, 0] = -127, 1
    lanes[3, 5, 1] = 64, 64
    assert complements(lanes).tolist() == [2, 0, 3, 1]
    assert [f"{mask & (2**32 - 1):08x}" for mask in MASKS[1:]] == [
        "0000ff00",
        "ff000000",
        "ff00ff00",
    ]


def test_dwords_are_read_in_any_order_that_is_safe():
    """Products add up to the same sum with any order and complement."""
    generator = np.random.default_rng(1)
    drawn = np.rint(generator.normal(0, 55, (4000, 8, 2, 2))).clip(-128, 127)
    drawn[:500] = generator.choice([-128, -127, 0, 1, 127], (500, 8, 2, 2))
    weight = drawn.astype(np.int8)
    found = variants(weight, len(ORDERS))
    assert set(found) == {*range(-1, len(ORDERS) * len(MASKS))}
    for orders in (1, 2):
        fewer = variants(weight, orders)
        assert np.array_equal(fewer, np.where(found < orders * len(MASKS), found, -1))
    orders, masks = np.divmod(np.maximum(found, 0), len(MASKS))
    ordered = in_order(weight, orders)
    changed, missing = complemented(ordered, masks)
    assert np.array_equal(split(changed)[1].any(axis=(1, 2, 3)), found < 0)

    data = generator.choice([0, 1, 77, 254, 255], (4000, 4))
    taken = np.take_along_axis(data, np.array(ORDERS)[orders], axis=1)
    bits = np.array([[mask >> 8 * i & 255 for i in range(4)] for mask in MASKS])
    sums = (changed.reshape(-1, 8, 4) * (taken ^ bits[masks])[:, None]).sum(axis=-1) + missing
    assert np.array_equal(sums, (weight.reshape(-1, 8, 4) * data[:, None]).sum(axis=-1))
    block = weight.reshape(-1, 8, 4)[:512].transpose(1, 0, 2).reshape(8, -1, 1, 1)
    steps = [excess_steps(block, 8, n) for n in (1, 2, 3)]
    assert steps == [int((variants(weight[:512], n) < 0).sum()) for n in (1, 2, 3)]
    assert steps == [*excess_by_orders(block, 8)]
    assert steps[0] > steps[1] > steps[2]


def test_steps_are_counted_where_any_lane_has_excess():
    weight = np.zeros((24, 16, 3, 3), np.int8)
    assert excess_steps(weight, 8) == 0
    weight[:8, :2] = 64
    weight[8:16, 1:3] = 127
    weight[16:, :2] = 127
    assert excess_steps(weight, 8) == 0
    weight[17, 4:6, 1, 2] = 65
    weight[18, 4:6, 1, 2] = -65, 65
    # the average over three blocks, rounded up: 1, 2, 2 + 9
    assert excess_steps(weight, 8) == 1
    weight[23, 12:14, 0, 0] = -128
    assert excess_steps(weight, 8) == 1
    weight[2, 4:6] = -128
    assert excess_steps(weight, 8) == 4


@pytest.mark.parametrize("packed", [0, 1, 3])
def test_a_kernel_with_too_few_steps_refuses_its_weights(packed):
    workload = Conv2dWorkload.parse("ic64ih7oc32kh1:u8s8s32u8+bias")
    kernel = make_kernel(workload, V3, "direct_bytes")
    config = kernel.config.replace(packed=packed, rows=min(packed, 1))
    kernel = make_kernel(workload, V3, "direct_bytes", config)
    weight = np.full(workload.weight_shape, 64, np.int8)
    assert kernel.suited(weight) == kernel
    weight[3, ::8] = 65
    # these are complemented
    assert kernel.suited(weight) == kernel
    assert kernel.pack_weight(weight).nbytes < 1.3 * weight.nbytes
    weight[4, ::8] = -65
    with pytest.raises(WorkloadError, match=r"excess=0\. Expected excess=2"):
        kernel.pack_weight(weight)
    more = kernel.suited(weight)
    # one of four blocks has eight
    assert more.config["excess"] == 2
    rows = 4 * (regular_steps(workload, V3) + more.config["excess"])
    table = rows // 8 + (2 if packed else 2 + len(MASKS))
    assert more.pack_weight(weight).shape == (rows + table + 4, 8, 4)
