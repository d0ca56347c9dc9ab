"""When Winograd convolution of 8-bit integers is exact: the bounds, at their extremes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.kernels import V3
from tvmconv.algorithms.winograd.integers import (
    MOST_PRODUCTS,
    exact_below,
    fits_shorts,
    integer_transforms,
    largest_sums,
    worst_sum,
)
from tvmconv.algorithms.winograd.polyphase import phases, split_filter
from tvmconv.algorithms.winograd.winograd import Winograd
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload

BYTES = DataTypes("uint8", "int8", "int32", "int32")
SIGNED = DataTypes("int8", "int8", "int32", "int32")
SHORTS = DataTypes("uint8", "int16", "int32", "int32")
TILES = list(product((2, 3, 4), (2, 3, 4)))
each_tile = pytest.mark.parametrize("tile", TILES, ids=lambda tile: "{}x{}".format(*tile))


def pair(tile, r=3):
    return tuple(integer_transforms(m, r) for m in tile)


def tile_sums(tile, data, weight):
    """One tile's sums in 32-bit integers that may overflow, with transforms of 16 bits.

    ``data`` is ``(C, mh + r - 1, mw + r - 1)``, ``weight`` ``(C, r, r)``.
    """
    tall, wide = pair(tile, weight.shape[-1])

    def matrix(of):
        exact = of.astype(np.int64)
        assert (exact == of).all()
        return exact

    def both(a, values, b):
        return np.einsum("ia,cab,jb->cij", matrix(a), values, matrix(b))

    v = both(tall.input_matrix(), data, wide.input_matrix())
    u = both(tall.filter_matrix(), weight, wide.filter_matrix())
    assert (v.astype(np.int16) == v).all()
    assert (u.astype(np.int16) == u).all()
    sums = (v * u).astype(np.int32).sum(axis=0, dtype=np.int32)
    at, bt = matrix(tall.output_matrix()), matrix(wide.output_matrix())
    return (at @ sums.astype(np.int64) @ bt.T).astype(np.int32)


def quotient(tile, value, r=3):
    """The kernel's result of such sums: the odd factor's inverse, then a shift."""
    scale = np.prod([each.scale for each in pair(tile, r)], dtype=int)
    shift = int(scale & -scale).bit_length() - 1
    inverse = pow(int(scale >> shift), -1, 2**32)
    wrapped = (value.astype(np.int64) * inverse % 2**32).astype(np.uint32).view(np.int32)
    return wrapped >> shift


def expected_sums(tile, data, weight):
    mh, mw = tile
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))[:, :mh, :mw]
    return np.einsum("cyxrs,crs->yx", windows, weight)


@pytest.mark.parametrize(
    ("m", "r"), [(m, r) for r in (2, 3, 4, 5) for m in range(2, MOST_PRODUCTS - r + 2)]
)
def test_matrices_give_the_convolution_times_their_scale(m, r):
    found, generator = integer_transforms(m, r), np.random.default_rng(m)
    d, g = generator.integers(-99, 99, found.n), generator.integers(-99, 99, r)
    products = (found.filter_matrix() @ g) * (found.input_matrix() @ d)
    expected = [d[i : i + r] @ g for i in range(m)]
    assert np.array_equal(found.output_matrix() @ products, found.scale * np.array(expected))


def test_the_papers_scales_and_bounds():
    assert [integer_transforms(m, 3).scale for m in (2, 3, 4)] == [2, 6, 24]
    bounds = {tile: exact_below(*pair(tile)) for tile in TILES}
    assert bounds[2, 2] == bounds[3, 3] == bounds[2, 3] == 2**29
    assert bounds[2, 4] == bounds[3, 4] == bounds[4, 3] == 2**27
    assert bounds[4, 4] == 2**25
    # channels with any weights: |y| <= 255 * 128 * 9 * C
    safe = {tile: bound // (255 * 128 * 9) for tile, bound in bounds.items()}
    assert (safe[2, 2], safe[3, 4], safe[4, 4]) == (1827, 456, 114)


@each_tile
@pytest.mark.parametrize("types", [BYTES, SIGNED], ids=["u8", "s8"])
def test_transformed_values_of_8_bits_fit_16(tile, types):
    """By brute force over the corner of the data's range that is worst for each value."""
    tall, wide = pair(tile)
    assert fits_shorts(tall, wide, types)
    low, high = np.iinfo(types.data).min, np.iinfo(types.data).max
    for matrices, (least, most) in (
        ((tall.input_matrix(), wide.input_matrix()), (low, high)),
        ((tall.filter_matrix(), wide.filter_matrix()), (-128, 127)),
    ):
        for row in np.kron(*matrices):
            for sign in (1, -1):
                corner = np.where(sign * row > 0, most, least)
                assert -(2**15) <= row @ corner < 2**15


def test_weights_less_their_zero_point_fit_small_tiles_only():
    fitting = [tile for tile in TILES if fits_shorts(*pair(tile), SHORTS)]
    assert (2, 2) in fitting
    assert (3, 3) in fitting
    assert (4, 4) not in fitting


@each_tile
@pytest.mark.parametrize("seed", range(2))
def test_tiles_are_exact_modulo_the_bound(tile, seed):
    """Extreme and random operands, of as many channels as are safe in any tile."""
    generator = np.random.default_rng(seed)
    shape = tuple(m + 2 for m in tile)
    for channels in (1, 7, 114):
        for data in (
            np.full((channels, *shape), 255),
            generator.choice([0, 255], (channels, *shape)),
            generator.integers(0, 256, (channels, *shape)),
        ):
            for weight in (
                np.full((channels, 3, 3), -128),
                np.full((channels, 3, 3), 127),
                generator.choice([-128, 127], (channels, 3, 3)),
                generator.integers(-128, 128, (channels, 3, 3)),
            ):
                result = quotient(tile, tile_sums(tile, data, weight))
                assert np.array_equal(result, expected_sums(tile, data, weight))


@pytest.mark.parametrize("size", [3, 4, 7, 11])
@pytest.mark.parametrize("seed", range(2))
def test_strided_tiles_are_exact_modulo_the_bound(size, seed):
    """Phases are further channels of the same tile; their sum has one bound."""
    generator, stride = np.random.default_rng(seed), 4 if size == 11 else 2
    workload = Conv2dWorkload.parse(f"ic9ih99oc1kh{size}sh{stride}:u8s8s32s32")
    taps = phases(workload)[0].taps
    for m in range(2, MOST_PRODUCTS - taps + 2):
        channels = min(114, exact_below(*pair((m, m), taps)) // (255 * 128 * size**2))
        # weights of -128 alone make -32768 of this one, which has no opposite
        assert fits_shorts(*pair((m, m), taps), BYTES) == ((m, taps) != (3, 4))
        span = (m + taps - 1) * stride
        for data in (
            np.full((channels, span, span), 255),
            generator.choice([0, 255], (channels, span, span)),
        ):
            for weight in (
                np.full((channels, size, size), -128),
                generator.choice([-128, 127], (channels, size, size)),
            ):
                split = split_filter(weight, workload).reshape(-1, taps, taps)
                rows = data.reshape(channels, -1, stride, span // stride, stride)
                inputs = rows.transpose(0, 2, 4, 1, 3)
                count = phases(workload)[0].count
                inputs = inputs[:, :count, :count].reshape(len(split), *inputs.shape[3:])
                result = quotient((m, m), tile_sums((m, m), inputs, split), taps)
                windows = np.lib.stride_tricks.sliding_window_view(data, (size, size), (1, 2))
                seen = windows[:, ::stride, ::stride][:, :m, :m]
                assert np.array_equal(result, np.einsum("cyxrs,crs->yx", seen, weight))


@each_tile
def test_the_bound_is_the_last_that_holds(tile):
    limit = exact_below(*pair(tile))
    scale = int(np.prod([each.scale for each in pair(tile)], dtype=int))

    def back(y):
        return int(quotient(tile, np.array([scale * y]))[0])

    for y in (limit - 1, 1 - limit, limit // 2, -limit, 0):
        assert back(y) == y
    assert back(limit) != limit
    assert back(-limit - 1) != -limit - 1


@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_largest_sums_are_reached_by_some_data_and_exceeded_by_none(data):
    generator, info = np.random.default_rng(3), np.iinfo(data)
    weight = generator.integers(-128, 128, (5, 2, 2, 2))
    corners = np.array(list(product((info.min, info.max), repeat=8)))
    sums = np.abs(corners @ weight.reshape(5, -1).T).max(axis=0)
    assert np.array_equal(largest_sums(weight, data), sums)


def test_no_weights_exceed_the_worst_sum():
    workload = Conv2dWorkload.parse("ic114ih8oc1kh3ph1:u8s8s32s32")
    assert worst_sum(workload) == largest_sums(np.full((1, 114, 3, 3), -128), "uint8")[0]
    assert worst_sum(workload) < 2**25 <= worst_sum(workload) + 255 * 128 * 9


def test_packing_refuses_weights_with_which_a_tile_is_not_exact():
    workload = Conv2dWorkload.parse("ic128ih8oc16kh3ph1:u8s8s32s32")
    algorithm, config = Winograd(), Config.of(mh=4, mw=4, kr=1, fused=0)
    weight = np.ones((16, 128, 3, 3), np.int8)
    weight[5] = -128
    with pytest.raises(WorkloadError, match=r"F\(4x4\) of .* channel 5 .* below 33554432"):
        algorithm.pack_weight(weight, workload, V3, config)
    weight[5, 100:] = 127
    packed = algorithm.pack_weight(weight, workload, V3, config)
    assert packed.dtype == np.int16
    assert packed.nbytes == algorithm.packed_weight_bytes(workload, V3, config)
    assert packed.nbytes == 4 * 2 * weight.nbytes
    algorithm.pack_weight(np.full_like(weight, -128), workload, V3, config.replace(mw=3))
