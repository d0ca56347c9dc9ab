"""Winograd kernels against float64: any problem, every tile size, every config that is allowed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import kernels
from tests.kernels import (
    V3,
    V4,
    allocated,
    alternating_machines,
    check_kernel,
    default_config,
    each_machine,
    run_by_threads,
)
from tests.strategies import CHANNELS, conv_arrays, epilogues, volumes
from tvmconv.algorithms.planes import plane_stride
from tvmconv.algorithms.winograd.matrices import MOST_PRODUCTS, transforms
from tvmconv.algorithms.winograd.tiles import tiling
from tvmconv.algorithms.winograd.winograd import Winograd
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import offers, schedule


@st.composite
def workloads(draw: st.DrawFn, *, max_size: int = 18, max_kernel: int = 5) -> Conv2dWorkload:
    """The layers that the algorithm accepts: stride 1, dense, any padding on each side."""
    kernel = [draw(st.integers(1, max_kernel)) for _ in "hw"]
    assume(kernel != [1, 1])
    pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    smallest = [max(1, kernel[i] - pads[i] - pads[i + 2]) for i in range(2)]
    size = [draw(st.integers(low, max_size)) for low in smallest]
    return Conv2dWorkload(
        batch=draw(st.integers(1, 2)),
        in_channels=draw(st.sampled_from(CHANNELS)),
        in_height=size[0],
        in_width=size[1],
        out_channels=draw(st.sampled_from(CHANNELS)),
        kernel_h=kernel[0],
        kernel_w=kernel[1],
        pad_top=pads[0],
        pad_left=pads[1],
        pad_bottom=pads[2],
        pad_right=pads[3],
        epilogue=draw(epilogues()),
    )


any_config = partial(kernels.any_config, "winograd")
check = partial(kernels.check_announced, "winograd")


@each_machine
@settings(max_examples=5)
@given(workload=workloads(), seed=st.integers(0, 99))
def test_any_problem_with_any_config(machine, workload, seed):
    check(workload, machine, any_config(workload, machine, seed))


@pytest.mark.slow
@each_machine
@settings(max_examples=150)
@given(
    workload=workloads(max_size=40, max_kernel=7),
    seed=st.integers(0, 999),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, seed, cores):
    machine = machine.with_cores(cores)
    check(workload, machine, any_config(workload, machine, seed))


@each_machine
@settings(max_examples=3)
@given(workload=volumes(workloads(max_size=10, max_kernel=3)), seed=st.integers(0, 99))
def test_any_volume_with_any_config(machine, workload, seed):
    check(workload, machine, any_config(workload, machine, seed))


@pytest.mark.slow
@each_machine
@settings(max_examples=100)
@given(
    workload=volumes(workloads(max_size=24, max_kernel=5)),
    seed=st.integers(0, 999),
    cores=st.sampled_from((1, 3)),
)
def test_any_volume_thoroughly(machine, workload, seed, cores):
    machine = machine.with_cores(cores)
    check(workload, machine, any_config(workload, machine, seed))


@each_machine
@pytest.mark.parametrize("kernel", [3, 5])
def test_every_square_tile(machine, kernel):
    """Ragged on both sides: 13 by 11 outputs, 20 to 24 channels, two images."""
    workload = Conv2dWorkload.parse(f"mb2ic20ih13iw11oc24kh{kernel}ph{kernel // 2}+bias+relu")
    plain = {"fused": 1, "rh": 1, "rt": 1, "kr": 1}
    knobs = schedule("winograd", machine).KNOBS.values(workload, machine)
    for m in range(2, MOST_PRODUCTS - kernel + 2, 2 if machine is V3 else 1):
        config = {"mh": m, "mw": m, "rw": -(-11 // m), **plain}
        check(workload, machine, Config.of(**{k: v for k, v in config.items() if k in knobs}))


@alternating_machines(
    "problem",
    [
        "ic64ih14oc64kh3ph1+bias+add+relu",
        "ic24ih12oc40kh5",
        "ic32ih9oc32kh1kw3ph0pw1",
        "ic3ih30oc18kh3ph1",
        "ic16ih6iw31oc16kh3pt1pl0pb0pr1+silu",
    ],
)
def test_default_configs_of_shapes_that_networks_use(machine, problem):
    check(Conv2dWorkload.parse(problem), machine)


@pytest.mark.parametrize("fused", [0, 1])
def test_threads_do_not_change_the_result(fused):
    """Five output blocks by three and two at a time."""
    workload = Conv2dWorkload.parse("mb2ic24ih17oc40kh3ph1+bias+relu")
    config = default_config("winograd", workload, V3, fused=fused, rh=1, rt=1, kr=1)
    config = config.replace(kr=3)
    kernel = make_kernel(workload, V3, "winograd", config)
    results = run_by_threads(kernel, conv_arrays(workload))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_packed_weight_is_the_transformed_filter():
    workload = Conv2dWorkload.parse("ic20ih12oc40kh3ph1")
    config = default_config("winograd", workload, V3, mh=4, mw=3, kr=5)
    weight = np.random.default_rng(0).standard_normal((40, 20, 3, 3)).astype(np.float32)
    packed = Winograd().pack_weight(weight, workload, V3, config)
    assert packed.shape == Winograd().packed_weight_shape(workload, V3, config)
    tall, wide = transforms(4, 3).filter_matrix(), transforms(3, 3).filter_matrix()
    expected = np.einsum("ai,kcij,bj->abkc", tall, weight.astype(np.float64), wide)
    for a, b, k, c in [(0, 0, 0, 0), (5, 4, 39, 19), (2, 3, 17, 9)]:
        found = packed[b * 6 + a, k // 40, c // 8, c % 8, k // 8, k % 8]
        assert found == np.float32(expected[a, b, k, c])
    assert not packed[:, :, 2, 4:].any()


def test_what_it_cannot_compute_is_said():
    for problem, reason in [
        ("ic16ih8oc16kh3sh3", "at such a stride"),
        ("ic16ih8oc16kh3ph2dh1", "dilation"),
        ("g2ic32ih8oc32kh3ph1", "groups"),
        ("ic16ih8oc16kh1", "1x1"),
        ("ic16ih20oc16kh9:u8s8s32u8", "9x9"),
    ]:
        assert reason in (Winograd().unsupported(Conv2dWorkload.parse(problem), V4) or "")
    plain = replace(Conv2dWorkload.parse("ic16ih8oc16kh3ph1"), data_layout="NCHW")
    assert "channel-blocked" in (Winograd().unsupported(plain, V4) or "")


def test_knobs_outside_the_machine_are_refused():
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    config = default_config("winograd", workload, V4)
    for values, message in [
        ({"mh": 7}, "mh=7"),
        ({"mh": 4, "mw": 4, "rh": 2}, "not divide"),
        ({"mh": 4, "mw": 4, "rh": 7, "rt": 49, "kr": 1}, "vector registers"),
        ({"fused": 2}, "one of 0, 1"),
        ({"kr": 5}, "kr"),
    ]:
        with pytest.raises(ConfigError, match=message):
            make_kernel(workload, V4, "winograd", config.replace(**values))


def test_offers_differ_in_tile_error_and_memory():
    workload = Conv2dWorkload.parse("ic64ih28oc64kh3ph1")
    found = offers("winograd", workload, V4)
    assert len({(config["mh"], config["mw"]) for config in found}) == len(found) > 1
    algorithm = Winograd()
    small, large = found[0], max(found, key=lambda c: c.int("mh") + c.int("mw"))
    errors = [algorithm.error_estimate(workload, V4, config) for config in (small, large)]
    assert errors[0] < errors[1]
    assert all(algorithm.multiplies(workload, V4, config) < workload.macs for config in found)


@pytest.mark.parametrize("channels", [16, 32, 48, 64, 128])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("alive", [4, 8, 14, 16, 25, 32])
def test_lines_of_all_planes_fit_one_l1(channels, size, alive):
    workload = Conv2dWorkload.parse("ic16ih64oc16kh3ph1")
    tiles = tiling(workload, Config.of(mh=size, mw=size))
    for machine in (V3, V4):
        lanes = machine.channel_block
        stride = plane_stride(tiles.products, channels * alive, machine, 4)
        sets = [4 * stride * plane // 64 % 64 for plane in range(tiles.products)]
        assert max(map(sets.count, sets)) <= 8, (lanes, stride)


@alternating_machines("fused", [0, 1])
def test_planes_that_would_meet_are_set_apart(machine, fused):
    workload = Conv2dWorkload.parse("ic64ih64iw64oc64kh3ph1+bias")
    config = Config.of(mh=4, mw=4, fused=fused, rh=1, rw=16, rt=4, kr=2)
    kernel = make_kernel(workload, machine, "winograd", config)
    planes = 36 * (1 if fused else 16) * 16 * 4 * (64 + 64)
    assert allocated(kernel) == planes + 36 * 2 * 64
    assert Winograd().workspace_bytes(workload, machine, config) == allocated(kernel)
    at_a_time = 4 if fused else 1
    for_four = Winograd().workspace_bytes(workload, machine.with_cores(4), config)
    assert for_four == at_a_time * allocated(kernel)
    check_kernel(workload, machine, "winograd", config)
