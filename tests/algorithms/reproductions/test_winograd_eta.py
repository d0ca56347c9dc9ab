"""Winograd along eta against float64, and its packed layouts against the paper's formulas."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import (
    SURPLUS,
    V3,
    V4,
    alternating_machines,
    each_machine,
    each_target,
    errors,
    run_by_threads,
    run_kernel,
)
from tests.layout import block
from tests.strategies import conv_arrays, epilogues
from tests.tiles import F4_FILTER, F4_INPUT, F4_OUTPUT, tile_products, transformed_tiles
from tvmconv.algorithms.reproductions.winograd_eta import WinogradEta, _input, _product
from tvmconv.algorithms.reproductions.winograd_packing import Packing, paper_transforms
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.winograd_eta import compute_to_memory
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import schedule

each_size = pytest.mark.parametrize("m", [4, 6])
# nothing divides anything: 3 images, 20 and 25 channels, 7x9 outputs
RAGGED = "mb3ic20ih7iw9oc25kh3ph1+bias+relu"
PLAIN = {"br": 2, "kr": 3, "cl1": 16, "kl2": 6, "tiles": 1, "outer_eta": 0, "prefetch": 0}


def config(m, s, **knobs):
    return Config.of(**{**PLAIN, "m": m, "s": s, **knobs})


def check(workload, machine, knobs):
    """Root mean square of the error over the output's: at most 1e-5, or 2e-5 for F(6)."""
    kernel = make_kernel(workload, machine, "winograd_eta", knobs)
    error, expected = errors(kernel)
    limit = 1e-5 if kernel.config["m"] == 4 else 2e-5
    scale = max(np.sqrt((expected**2).mean()), 0.1)
    assert np.sqrt((error**2).mean()) <= limit * scale, (str(workload), str(kernel.config))
    estimate = kernel.expression.error_estimate(workload, machine, kernel.config)
    assert np.abs(error).max() <= 4 * estimate * max(np.abs(expected).max(), 1.0) + 2e-6


@alternating_machines("m", (4, 6))
def test_ragged_in_every_axis(machine, m):
    check(Conv2dWorkload.parse(RAGGED), machine, config(m, machine.lanes))


@st.composite
def workloads(draw: st.DrawFn) -> Conv2dWorkload:
    sizes = draw(st.tuples(st.integers(3, 15), st.integers(3, 15)))
    pads = draw(st.tuples(*[st.integers(0, 2)] * 4))
    channels = st.sampled_from((1, 3, 8, 16, 17, 33))
    return Conv2dWorkload(
        batch=draw(st.integers(1, 5)),
        in_channels=draw(channels),
        in_height=sizes[0],
        in_width=sizes[1],
        out_channels=draw(channels),
        kernel_h=3,
        kernel_w=3,
        pad_top=pads[0],
        pad_left=pads[1],
        pad_bottom=pads[2],
        pad_right=pads[3],
        data_layout=draw(st.sampled_from(("NCHWc", "NCHW"))),
        epilogue=draw(epilogues()),
    )


@st.composite
def configs(draw: st.DrawFn, lanes: int) -> Config:
    kr = draw(st.integers(1, 3))
    return config(
        draw(st.sampled_from((4, 6))),
        draw(st.sampled_from([s for s in (4, 8, 16) if s <= lanes])),
        br=draw(st.integers(1, 3)),
        kr=kr,
        cl1=draw(st.sampled_from((16, 32))),
        kl2=kr * draw(st.integers(1, 9)),
        tiles=draw(st.integers(0, 1)),
        outer_eta=draw(st.integers(0, 1)),
        prefetch=draw(st.integers(0, 1)),
    )


@each_machine
@settings(max_examples=1)
@given(data=st.data())
def test_any_problem_with_any_config(machine, data):
    check(data.draw(workloads()), machine, data.draw(configs(machine.lanes)))


@pytest.mark.slow
@each_machine
@settings(max_examples=60)
@given(data=st.data())
def test_any_problem_thoroughly(machine, data):
    check(data.draw(workloads()), machine, data.draw(configs(machine.lanes)))


def test_f4_has_the_matrices_of_the_paper():
    t = paper_transforms(4)
    np.testing.assert_array_equal(t.output_matrix(), F4_OUTPUT)
    np.testing.assert_allclose(t.filter_matrix(), np.array(F4_FILTER, float), rtol=1e-15)
    np.testing.assert_array_equal(t.input_matrix(), F4_INPUT)


def test_f6_has_points_up_to_two_and_their_inverses():
    t = paper_transforms(6)
    qt = np.array(
        [
            [1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0],
            [0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0],
            [0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0],
            [0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0],
            [0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0],
            [0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0],
            [0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0],
            [0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1],
        ]
    )
    np.testing.assert_array_equal(t.input_matrix(), qt)
    assert t.g[0] == (1, 0, 0)
    assert t.g[3] == (Fraction(1, 90), Fraction(1, 45), Fraction(2, 45))
    assert t.g[5] == (Fraction(32, 45), Fraction(16, 45), Fraction(8, 45))
    assert t.at[5] == (0, 1, -1, 32, -32, Fraction(1, 32), Fraction(-1, 32), 1)


@each_size
def test_the_identity_holds_in_rational_arithmetic(m):
    t = paper_transforms(m)
    for i in range(m):
        for k in range(3):
            for j in range(t.n):
                total = sum(t.at[i][p] * t.g[p][k] * t.bt[p][j] for p in range(t.n))
                assert total == (j == i + k)


@pytest.mark.parametrize(("m", "s"), [(4, 4), (4, 8), (6, 8)])
def test_g_has_the_index_map_of_the_paper(m, s):
    """G[eta/S][c/C_l1][k/K_r][c % C_l1][k % K_r][eta % S] of the transposed P f P^T."""
    workload, knobs = Conv2dWorkload.parse(RAGGED), config(m, s)
    weight = conv_arrays(workload).weight
    packed = WinogradEta().pack_weight(weight, workload, V3, knobs)
    assert packed.shape == WinogradEta().packed_weight_shape(workload, V3, knobs)
    p = paper_transforms(m).filter_matrix()
    two_sided = np.einsum("au,kcuv,bv->kcab", p, weight.astype(np.float64), p)
    k, c, phi, gamma = np.indices((25, 20, m + 2, m + 2))
    eta = phi * (m + 2) + gamma
    place = (eta // s, c // 16, k // 3, c % 16, k % 3, eta % s)
    # equation 7: phi counts the columns of the tile that is not transposed
    np.testing.assert_allclose(packed[place], two_sided[k, c, gamma, phi], rtol=1e-6, atol=1e-7)
    packed[place] = 0
    assert not packed.any()


def stage(tensors, *arrays):
    """The last tensor's values, by TVM's unscheduled code."""
    from tvm import te

    function = tvm.tirx.build(te.create_prim_func(tensors), target="llvm")["main"]
    shape = tuple(int(extent) for extent in tensors[-1].shape)
    arguments = [tvm.runtime.tensor(a) for a in (*arrays, np.zeros(shape, np.float32))]
    function(*arguments)
    return arguments[-1].numpy()


@pytest.mark.parametrize(("m", "tiles"), [(4, 0), (6, 1)])
def test_d_has_the_index_map_of_the_paper(m, tiles):
    """D[eta/S][c/C_l1][b/B_r][mu][c % C_l1][b % B_r][eta % S] of the transposed Q^T x Q."""
    from tvm import te

    workload, knobs = Conv2dWorkload.parse(RAGGED), config(m, 8, tiles=tiles)
    arrays = conv_arrays(workload)
    blocked = block(arrays.data, V3.lanes, SURPLUS)
    data = te.placeholder(blocked.shape, name="data")
    found = stage([data, _input(Packing(workload, V3, knobs), data)], blocked)
    expected = transformed_tiles(workload, m, arrays.data, paper_transforms(m).input_matrix())
    b, c, mu, phi, gamma = np.indices(expected.shape)
    eta, at = phi * (m + 2) + gamma, b * expected.shape[2] + mu if tiles else b
    outer = (at // 2, 0 * mu if tiles else mu)
    values = found[(eta // 8, c // 16, *outer, c % 16, at % 2, eta % 8)]
    np.testing.assert_allclose(values, expected.swapaxes(3, 4), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "outer"), [(4, 0), (6, 1)])
def test_u_has_the_index_map_of_the_paper(m, outer):
    """U[k/K_r][b/B_r][mu][eta/S][b % B_r][k % K_r][eta % S]; eta/S first where it is asked for."""
    from tvm import te

    workload = replace(Conv2dWorkload.parse(RAGGED), epilogue=())
    knobs = config(m, 8, tiles=0, outer_eta=outer)
    arrays, pack = conv_arrays(workload), Packing(workload, V3, knobs)
    algorithm = WinogradEta()
    packed = algorithm.pack_weight(arrays.weight, workload, V3, knobs)
    blocked = block(arrays.data, V3.lanes, SURPLUS)
    data = te.placeholder(blocked.shape, name="data")
    weight = te.placeholder(packed.shape, name="weight")
    sums = _product(algorithm, pack, weight, _input(pack, data))
    found = stage([data, weight, sums], blocked, packed)
    matrices = paper_transforms(m)
    expected = tile_products(workload, m, arrays, matrices)
    b, k, mu, phi, gamma = np.indices(expected.shape)
    eta = phi * (m + 2) + gamma
    places = [k // 3, b // 2, mu]
    places.insert(0 if outer else 3, eta // 8)
    values = found[(*places, b % 2, k % 3, eta % 8)]
    np.testing.assert_allclose(values, expected.swapaxes(3, 4), rtol=1e-3, atol=1e-3)


def test_blocks_of_tiles_change_nothing():
    """Nor does the place of eta in U, or the prefetch: the sums have the same order."""
    workload = Conv2dWorkload.parse(RAGGED)
    arrays = conv_arrays(workload)
    results = [
        run_kernel(make_kernel(workload, V3, "winograd_eta", config(4, 8, **knobs)), arrays)
        for knobs in ({"tiles": 0}, {"tiles": 1}, {"outer_eta": 1, "prefetch": 1})
    ]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_threads_do_not_change_the_result():
    workload = Conv2dWorkload.parse(RAGGED)
    kernel = make_kernel(workload, V3, "winograd_eta", config(4, 8))
    assert np.array_equal(*run_by_threads(kernel, conv_arrays(workload), repeats=1))


def test_what_it_cannot_compute_is_said():
    for problem, reason in [
        ("ic16ih8oc16kh3sh2ph1", "stride"),
        ("ic16ih8oc16kh3ph2dh1", "dilation"),
        ("g2ic32ih8oc32kh3ph1", "groups"),
        ("ic16ih8oc16kh5ph2", "3x3"),
    ]:
        assert reason in (WinogradEta().unsupported(Conv2dWorkload.parse(problem), V4) or "")


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"cl1": 1024}, "of L1"),
        ({"kl2": 3 * 2000}, "of L2"),
        ({"m": 5}, "m=5"),
        ({"s": 16}, "lanes"),
        ({"kl2": 7}, "kr=3"),
        ({"cl1": 12}, "multiple of 8"),
        ({"tiles": 2}, "one of 0, 1"),
    ],
)
def test_blocks_beyond_the_machine_are_refused(knobs, message):
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    with pytest.raises(ConfigError, match=message):
        make_kernel(workload, V3, "winograd_eta", config(4, 8).replace(**knobs))


def test_a_block_of_four_by_four_needs_more_than_sixteen_registers():
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    four, three = config(4, 8, br=4, kr=4, kl2=64), config(4, 8, br=3, kr=3, kl2=63)
    assert make_kernel(workload, V4, "winograd_eta", four).config == four
    assert make_kernel(workload, V3, "winograd_eta", three).config == three
    with pytest.raises(ConfigError, match="24 vector registers"):
        make_kernel(workload, V3, "winograd_eta", four)


def test_equation_12_has_the_values_of_the_paper():
    """For the paper's block of 4x4: 4 C_l1 / (C_l1 + 4), and other blocks at 128 channels."""
    for depth, value in [(4, 2.0), (8, 2.667), (32, 3.556), (128, 3.879), (254, 3.938)]:
        assert compute_to_memory(4, 4, depth) == pytest.approx(value, abs=5e-4)
    assert compute_to_memory(5, 4, 128) > compute_to_memory(4, 4, 128)
    assert compute_to_memory(7, 3, 128) == pytest.approx(4.067, abs=5e-4)


@each_target
def test_defaults_obey_the_machine(machine):
    module = schedule("winograd_eta", machine)
    for problem in (RAGGED, "ic3ih32oc16kh3:nchw", "mb8ic512ih7oc512kh3ph1"):
        workload = Conv2dWorkload.parse(problem)
        found = module.offers(workload, machine)
        assert [knobs["m"] for knobs in found] == [4, 6]
        for knobs in found:
            module.check(workload, machine, knobs)
            space = module.KNOBS.values(workload, machine)
            assert all(knobs[name] in values for name, values in space.items()), knobs
    # a batch that the block divides keeps the paper's blocks of samples
    assert module.default_config(workload, machine)["tiles"] == int(8 % knobs.int("br") != 0)
