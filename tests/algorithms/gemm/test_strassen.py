"""Strassen products against float64: any problem, any allowed config, and the refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import kernels
from tests.kernels import (
    V3,
    V4,
    allocated,
    alternating_machines,
    dense,
    lowered,
    run_by_threads,
    tasks,
)
from tests.strategies import conv2d_workloads, conv_arrays
from tests.toy_family import TOY
from tvmconv.algorithms.gemm.strassen import Strassen, StrassenSplit
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.strassen import level_counts
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import default_config, schedule
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.x86 import MACHINES as X86
from tvmconv.machines.x86 import as_processor
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import select

MACHINE = TOY


def halving(machine):
    """A machine for which Strassen products are allowed."""
    return replace(machine, code=replace(machine.code, halves=True))


def supported(workload):
    return dense(workload) and Strassen().unsupported(workload, MACHINE) is None


any_config = partial(kernels.any_config, "strassen")
check = partial(kernels.check_announced, "strassen")


# with an odd count of channel blocks there is nothing to split
PROBLEMS = conv2d_workloads(max_size=12, channels=(8, 16, 24, 32, 48, 64), groups=(1,)).filter(
    supported
)


@settings(max_examples=4)
@given(workload=PROBLEMS, seed=st.integers(0, 99))
def test_any_problem_with_any_config(workload, seed):
    check(workload, MACHINE, any_config(workload, MACHINE, seed))


@pytest.mark.slow
@settings(max_examples=200)
@given(
    workload=conv2d_workloads(max_size=30, max_kernel=5).filter(supported),
    seed=st.integers(0, 999),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(workload, seed, cores):
    machine = MACHINE.with_cores(cores)
    check(workload, machine, any_config(workload, machine, seed))


@alternating_machines(
    "problem",
    [
        "ic64ih14oc96kh1+bias+add+relu",
        "mb2ic32ih7oc64kh1+bias",  # an odd number of pixels
        "ic64ih13iw9oc64kh3sh2+bias+relu",
    ],
)
def test_layers_that_networks_use(machine, problem):
    workload, halves = Conv2dWorkload.parse(problem), halving(machine)
    found = schedule("strassen", halves).offers(workload, halves)
    assert [config["levels"] for config in found] == list(level_counts(workload, halves))
    for config in found:
        check(workload, halves, config)


def test_padding_of_strided_layers():
    """x86 leaves such layers to direct convolution."""
    workload = Conv2dWorkload.parse("ic64ih13iw9oc64kh3sh2ph1+bias+relu")
    for seed in range(3):
        check(workload, MACHINE, any_config(workload, MACHINE, seed))
    for machine in (V3, V4):
        assert "padding" in Strassen().unsupported(workload, halving(machine))


@pytest.mark.parametrize("levels, half", [(1, 128), (2, 64)])
def test_seven_of_eight_products_are_made_at_each_level(levels, half):
    workload = Conv2dWorkload.parse("ic64ih16oc64kh1")
    config = Config.of(levels=levels, half=half, rt=4, kr=2)
    made = Strassen().multiplies(workload, MACHINE, config)
    assert made * 8**levels == workload.macs * 7**levels


@pytest.mark.parametrize("pixels, levels", [(14, 1), (7, 1), (8, 2), (16, 2), (32, 1)])
def test_workspace_is_what_is_said(pixels, levels):
    """Planes of 8x8 and more pixels are set apart, lest they meet in one set of L1."""
    workload = Conv2dWorkload.parse(f"ic32ih{pixels}oc32kh1+bias")
    configs = schedule("strassen", MACHINE).offers(workload, MACHINE)
    config = next(c for c in configs if c["levels"] == levels)
    if pixels > 14:
        config = config.replace(half=pixels**2 // 2**levels, rt=8, kr=2)
    kernel = make_kernel(workload, MACHINE, "strassen", config)
    said = Strassen().workspace_bytes(workload, MACHINE, kernel.config)
    assert said <= allocated(kernel) <= said + 128


@pytest.mark.parametrize(
    "problem, levels, half", [("mb2ic24ih17oc40kh1+bias+relu", 1, 28), ("ic16ih9oc16kh1", 2, 8)]
)
def test_threads_do_not_change_the_result(problem, levels, half):
    workload = Conv2dWorkload.parse(problem)
    two, config = MACHINE.with_cores(2), Config.of(levels=levels, half=half, rt=4, kr=1)
    kernel = make_kernel(workload, two, "strassen", config)
    # the last region may exceed the image
    assert min(tasks(kernel)) > 1
    results = run_by_threads(kernel, conv_arrays(workload))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_packed_weights_are_sums_of_quarters():
    workload = Conv2dWorkload.parse("ic16ih8oc16kh1")
    config = Config.of(levels=1, half=32, rt=4, kr=2)
    weight = np.random.default_rng(0).standard_normal((16, 16, 1, 1)).astype(np.float32)
    packed = Strassen().pack_weight(weight, workload, MACHINE, config)
    # outputs 4 to 7 and 12 to 15 are the odd blocks, and so are inputs
    odd = [k for k in range(16) if k // 4 % 2]
    even = [k for k in range(16) if k not in odd]
    plain = weight[:, :, 0, 0].astype(np.float64)
    b11, b22 = plain[np.ix_(even, even)], plain[np.ix_(odd, odd)]
    b12, b21 = plain[np.ix_(odd, even)], plain[np.ix_(even, odd)]
    for q, expected in {0: b11, 1: b21, 4: b12 - b11, 6: b22 - b12}.items():
        # (input block, channel, output block, lane) to (output, input)
        found = packed[0, q].reshape(8, 8).T
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_packed_weights_of_two_levels_are_sums_of_sums():
    workload = Conv2dWorkload.parse("ic16ih8oc16kh1")
    config = Config.of(levels=2, half=16, rt=4, kr=1)
    weight = np.random.default_rng(0).standard_normal((16, 16, 1, 1)).astype(np.float32)
    packed = Strassen().pack_weight(weight, workload, MACHINE, config)
    # [output block][input block] of (input, output), four blocks of four channels each
    blocks = weight.reshape(4, 4, 4, 4).transpose(0, 2, 3, 1).astype(np.float64)
    # the outer level leaves out blocks 2 and 3, the inner one 1 and 3, first of the output, then of
    # the input
    outer = {0: blocks[:2, :2], 2: blocks[2:, 2:], 4: blocks[2:, :2] - blocks[:2, :2]}
    for q, part in outer.items():
        inner = {0: part[0, 0], 1: part[0, 1], 2: part[1, 1], 4: part[1, 0] - part[0, 0]}
        for p, expected in inner.items():
            found = packed[0, 7 * q + p].reshape(4, 4)
            np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("problem", ["ic24ih8oc64kh1", "ic64ih8oc24kh1"])
def test_odd_numbers_of_blocks_are_not_split(problem):
    workload = Conv2dWorkload.parse(problem)
    assert level_counts(workload, MACHINE) == (1,)
    config = default_config("strassen", workload, MACHINE)
    with pytest.raises(ConfigError, match="multiples of 4"):
        make_kernel(workload, MACHINE, "strassen", config.replace(levels=2))


def test_records_from_before_mean_one_level():
    workload = Conv2dWorkload.parse("ic64ih14oc64kh1")
    kernel = make_kernel(workload, MACHINE, "strassen", Config.of(half=98, rt=7, kr=2))
    assert kernel.config["levels"] == 1


@pytest.mark.parametrize(
    "problem, reason",
    [
        ("g2ic32ih8oc32kh1", "groups"),
        ("ic12ih8oc32kh1", "even numbers"),
        ("ic30ih8oc32kh1", "lanes"),
        ("ic32ih8oc20kh1", "even numbers"),
        ("ic16ih8oc16kh1:nchw", "channel-blocked"),
        ("ic16id4ih8oc16kh1", "depth"),
    ],
)
def test_what_it_cannot_compute_is_said(problem, reason):
    workload = Conv2dWorkload.parse(problem)
    assert reason in (Strassen().unsupported(workload, MACHINE) or "")


def test_machines_without_figures_do_not_take_it():
    machine = replace(MACHINE, code=replace(MACHINE.code, halves=False))
    workload = Conv2dWorkload.parse("ic64ih8oc64kh1")
    assert "no measurement" in (Strassen().unsupported(workload, machine) or "")


@pytest.mark.parametrize(
    "values",
    [
        {"half": 0},
        {"half": 100, "rt": 3},
        {"kr": 5},
        {"half": 28, "rt": 28, "kr": 2},
        {"levels": 3},
        {"levels": 2, "kr": 8},
    ],
)
def test_impossible_knobs_are_refused(values):
    workload = Conv2dWorkload.parse("ic64ih14oc64kh1")
    config = Config.of(levels=1, half=98, rt=7, kr=2).replace(**values)
    with pytest.raises(ConfigError, match=r"Expected|vector registers"):
        make_kernel(workload, MACHINE, "strassen", config)


def test_builds_for_arm_take_it_unless_inputs_or_errors_forbid():
    workload, machine = Conv2dWorkload.parse("ic256ih14oc1024kh1"), MACHINES["neoverse-n1"]
    assert select(workload, machine).chosen.algorithm == "strassen"
    for policy in (make_policy(finite=False), make_policy(error_budget=0.0)):
        assert select(workload, machine, policy=policy).chosen.algorithm != "strassen"
    assert select(workload, V4).chosen.algorithm != "strassen"


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v4"])
def test_zen_5_takes_it_where_sums_of_the_input_serve_many_outputs(isa):
    machine = as_processor(X86[isa], "znver5")

    def chosen(problem):
        return select(Conv2dWorkload.parse(problem), machine).chosen

    assert chosen("ic512ih14oc1024kh1+bias+add+relu").algorithm == "strassen"
    if machine.vector.bits == 512:
        # input sums take longer than the products that they save
        assert chosen("ic384ih14oc64kh1+bias+add").algorithm == "direct"
    # two levels would have one tile, which uses each of 12 MB of weights once
    assert chosen("ic512ih7oc2048kh1+bias").config.get("levels", 1) == 1


def test_regions_on_zen_5_do_not_fill_the_last_cache():
    """All sums of this layer are 28 MB: in one region it took 1.6 times direct's time."""
    workload = Conv2dWorkload.parse("ic448ih72oc256kh1+bias+relu")
    machine = as_processor(X86["x86-64-v4"], "znver5")
    for config in schedule("strassen", machine).offers(workload, machine):
        cut = StrassenSplit.of(workload, machine, config)
        assert 64 * cut.products * cut.half * cut.depth < 8 << 20


def test_tiles_prefetch_the_next_weights_unless_values_are_lanes():
    workload = Conv2dWorkload.parse("ic32ih8oc64kh1")
    config = Config.of(levels=1, half=32, rt=4, kr=2)
    for machine, expected in ((X86["x86-64-v3"], True), (MACHINES["neoverse-n1"], False)):
        kernel = make_kernel(workload, halving(machine), "strassen", config)
        assert ("prefetch" in str(lowered(kernel))) == expected
