"""Winograd of strided and long kernels against float64, and what their products leave out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import kernels
from tests.kernels import V3, V4, each_machine
from tests.strategies import conv2d_workloads
from tests.toy_family import TOY
from tvmconv.algorithms.winograd.polyphase import PhaseAxis, phase_count, split_filter
from tvmconv.algorithms.winograd.tiles import product_step, tiling
from tvmconv.algorithms.winograd.winograd import Winograd
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.kernels import registry
from tvmconv.kernels.registry import default_config, offers
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.x86 import as_processor
from tvmconv.selection.policy import DEFAULT_ERROR_BUDGET
from tvmconv.selection.select import select

# as on 64-bit Arm
LANES = replace(TOY, code=replace(TOY.code, by_lane=True, transforms_strips=True))
any_config = partial(kernels.any_config, "winograd")
check = partial(kernels.check_announced, "winograd")
each_form = pytest.mark.parametrize("machine", [TOY, LANES], ids=["plain", "lanes"])


def has_phases(workload: Conv2dWorkload) -> bool:
    """Whether tiles take a kernel that has a stride, or more taps than a tile."""
    return phase_count(workload) > 1 and Winograd().unsupported(workload, TOY) is None


@each_form
@settings(max_examples=3)
@given(
    workload=conv2d_workloads(max_size=20, max_kernel=9, groups=(1,)).filter(has_phases),
    seed=st.integers(0, 99),
)
def test_any_problem_with_any_config(machine, workload, seed):
    check(workload, machine, any_config(workload, machine, seed))


@pytest.mark.slow
@each_form
@settings(max_examples=150)
@given(
    workload=conv2d_workloads(max_size=40, max_kernel=11, groups=(1,)).filter(has_phases),
    seed=st.integers(0, 999),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, seed, cores):
    machine = machine.with_cores(cores)
    check(workload, machine, any_config(workload, machine, seed))


@pytest.mark.parametrize(
    "problem",
    [
        "ic3ih31iw33oc16kh7sh2ph3+bias+relu",
        "mb2ic20ih17oc24kh3sh2ph1+bias+add",
        # phases of which none lacks a tap, three of four do not, and one along the rows
        "ic8ih14oc8kh4sh2ph1",
        "ic3ih35oc8kh11sh4ph2",
        "ic8ih12iw13oc8kh3sh1sw2ph1",
        "ic8ih12iw13oc8kh3kw1sh2sw2ph1pw0",
        "ic4id5ih9oc8kd3kh3sd2sh2pd1ph1",
        # parts: all whole, the last one shorter along the columns, with a stride
        "ic20ih14iw15oc24kh9ph4+bias",
        "mb2ic8ih1iw40oc8kh1kw32pw16",
        "ic8ih40iw41oc8kh17sh2ph3",
    ],
)
def test_shapes_that_networks_use(problem):
    workload = Conv2dWorkload.parse(problem)
    check(workload, LANES, offers("winograd", workload, LANES)[0])


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("size", [(2, 2), (2, 3), (4, 4)])
def test_threads_share_products_in_another_order(cores, size):
    workload = Conv2dWorkload.parse("ic16ih12oc24kh3sh2ph1+bias")
    machine = TOY.with_cores(cores)
    config = Config.of(mh=size[0], mw=size[1], fused=0, rh=1, rw=1, rt=1, kr=1)
    assert product_step(tiling(workload, config), config, machine) > 1
    check(workload, machine, config)


@each_machine
@pytest.mark.parametrize(
    "problem",
    ["ic32ih20oc48kh3sh2ph1+bias+add+relu", "ic20ih13oc16kh5sh2", "ic20ih13oc16kh8kw11ph4+bias"],
)
def test_defaults_of_x86(machine, problem):
    """Two blocks of input channels and more: panels of weights are prefetched for the next."""
    check(Conv2dWorkload.parse(problem), machine)


@pytest.mark.parametrize("machine", [V3, as_processor(V4, "znver4")], ids=["avx2", "zen4"])
def test_where_it_was_measured_to_pay_it_is_chosen(machine):
    chosen = {
        size: select(Conv2dWorkload.parse(f"{size}kh3sh2ph1+bias+relu"), machine).chosen.algorithm
        for size in ("ic64ih56oc128", "ic128ih28oc256", "ic256ih14oc512", "ic512ih14oc512")
    }
    assert [name == "winograd" for name in chosen.values()] == [True, True, False, False], chosen


def test_input_is_read_once_by_all_phases():
    """Half the bytes of a dense layer, whose output is four times as large and counts twice."""
    strided, dense = (
        WinogradModel(w, V3).parts(default_config("winograd", w, V3))["activations"]
        for w in map(Conv2dWorkload.parse, ("ic256ih56oc256kh3sh2ph1", "ic256ih56oc256kh3ph1"))
    )
    assert strided == pytest.approx(dense / 2)


@pytest.mark.parametrize("kernel", [*range(1, 12), 31, 64])
@pytest.mark.parametrize("stride", range(1, 5))
def test_phases_have_all_taps_of_a_kernel(kernel, stride):
    axis = PhaseAxis(kernel, stride)
    phases = [range(axis.first(a), kernel, stride)[: axis.taps] for a in range(axis.count)]
    assert sorted(tap for phase in phases for tap in phase) == list(range(kernel))
    rows = [len(phase) for phase in phases]
    assert max(rows) == axis.taps < 8 and min(rows) > 0
    assert rows == sorted(rows, reverse=True) and rows.count(axis.taps) == axis.whole
    split = axis.split(np.arange(1.0, kernel + 1))
    assert [[tap - 1 for tap in row if tap] for row in split] == [list(phase) for phase in phases]
    # products at infinity are left out where the last tap is missing
    missing = sum(axis.taps - 1 - taps for taps in rows if taps < axis.taps)
    assert axis.products(4) == sum(4 + taps - 1 for taps in rows) + missing


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
@pytest.mark.parametrize("problem", ["ic64ih46oc64kh9ph4", "ic64ih56oc64kh11ph5"])
def test_long_kernels_are_cut_within_the_error_budget(problem, machine):
    """The tile of four rows or columns multiplies a third as often as direct convolution."""
    workload = Conv2dWorkload.parse(problem)
    chosen = select(workload, machine).chosen
    assert chosen.algorithm == "winograd" and chosen.error <= DEFAULT_ERROR_BUDGET
    done = registry.algorithm("winograd").multiplies(workload, machine, chosen.config)
    assert done < workload.macs / 2.5


def test_what_is_left_out_has_weights_of_zero():
    """F(4x4) of 3x3, stride 2: at infinity the phase of the middle tap is zero."""
    workload = Conv2dWorkload.parse("ic8ih16oc8kh3sh2ph1")
    config = default_config("winograd", workload, LANES).replace(mh=4, mw=4)
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32)
    packed = Winograd().pack_weight(weight, workload, LANES, config)
    zero = (packed == 0).all(axis=(1, 3, 4, 5)).reshape(5, 5, 2, 2, 2)
    assert zero[:, 4, 1].all() and zero[4, :, :, 1].all()
    assert zero.sum() == 2 * (100 - 81)
    assert Winograd().multiplies(workload, LANES, config) == 81 * 2 * 2 * 8 * 8
    split = split_filter(weight, workload)
    assert np.array_equal(split[:, :, 1, 0, 0], weight[:, :, 1, ::2])


def test_of_three_channels_three_are_multiplied():
    workload = Conv2dWorkload.parse("ic3ih30oc8kh7sh2ph3")
    config = Config.of(mh=4, mw=4, fused=1, rh=1, rw=4, rt=4, kr=1)
    assert Winograd().packed_weight_shape(workload, LANES, config) == (49, 2, 4, 3, 1, 4)
    assert Winograd().multiplies(workload, LANES, config) == (2 * 6 + 1) ** 2 * 16 * 3 * 8


def test_where_nobody_found_it_to_pay_strides_are_refused():
    without = replace(V3, code=replace(V3.code, phases=False))
    reason = Winograd().unsupported(Conv2dWorkload.parse("ic8ih16oc8kh3sh2ph1"), without)
    assert reason is not None and "stride 1, not 2x2" in reason
    bytes_of = {V3: "u8s8s32u8", MACHINES["neoverse-n1"]: "s8s8s32s8"}
    for machine, types in bytes_of.items():
        integers = Conv2dWorkload.parse(f"ic8ih16oc8kh3sh2ph1:{types}")
        assert Winograd().unsupported(integers, machine) is None
    reason = Winograd().unsupported(Conv2dWorkload.parse("ic8ih16oc8kh3sh3"), TOY)
    assert reason is not None and "no products to save" in reason
