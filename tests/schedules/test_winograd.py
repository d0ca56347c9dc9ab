"""The code of Winograd kernels: registers, workspace, SIMD transforms."""

from __future__ import annotations

import pytest

from tests.assembly import assembly
from tests.kernels import V3, V4, allocated, default_config, each_target, factors, reduction_nests
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.kernels.registry import offers, schedule

PROBLEMS = [
    "ic64ih56oc64kh3ph1+bias+relu",
    "ic256ih14oc256kh3ph1",
    "ic96ih24oc256kh5",
]
each_problem = pytest.mark.parametrize("problem", PROBLEMS)


def product_loops(code, tile):
    """The loops that multiply register tiles by scalars, and do nothing else."""
    return [
        body
        for body in code.tile_loops(tile)
        if any("vbroadcastss" in text or "{1to" in text for text in body)
    ]


@each_target
@each_problem
def test_accumulators_stay_in_registers(machine, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "winograd")
    code = assembly(kernel)
    loops = product_loops(code, kernel.config.int("rt") * kernel.config.int("kr"))
    assert loops
    for body in loops:
        assert not code.spills(body)
        assert not code.stores(body)


@pytest.mark.parametrize("rt, hint", [(8, "prefetcht0"), (4, "prefetcht1")])
def test_weights_are_prefetched(rt, hint):
    """Ahead of the only tile that uses them, or a panel ahead by each of several tiles."""
    workload = Conv2dWorkload.parse("ic64ih16iw32oc16kh3ph1")
    config = default_config("winograd", workload, V3)
    config = config.replace(mh=4, mw=4, fused=1, rh=1, rw=8, rt=rt, kr=1)
    code = assembly(make_kernel(workload, V3, "winograd", config))
    assert code.prefetches() == {hint}


@each_target
@each_problem
def test_the_transforms_are_vectors(machine, problem):
    """No scalar arithmetic anywhere: neither in the transforms nor in the epilogue."""
    code = assembly(make_kernel(Conv2dWorkload.parse(problem), machine, "winograd"))
    assert not code.count(r"vmulss|vaddss|vsubss|vfn?madd\w+ss|vfmsub\w+ss")


@each_target
@each_problem
def test_workspace_is_what_is_said(machine, problem):
    workload = Conv2dWorkload.parse(problem)
    for config in offers("winograd", workload, machine)[::6]:
        kernel = make_kernel(workload, machine, "winograd", config)
        expected = kernel.expression.workspace_bytes(workload, machine, config)
        assert allocated(kernel) == expected, config


@each_target
def test_every_offer_obeys_the_machine(machine):
    module = schedule("winograd", machine)
    for problem in PROBLEMS:
        workload = Conv2dWorkload.parse(problem)
        knobs = module.KNOBS.values(workload, machine)
        for config in offers("winograd", workload, machine):
            module.check(workload, machine, config)
            assert module.predicted_cycles(workload, machine, config) > 0
            assert all(config[name] in values for name, values in knobs.items()), config


def test_each_coefficient_is_one_vector_operation():
    """F(4x4, 3x3): zeros and ones of the matrices cost no multiplication."""
    workload = Conv2dWorkload.parse("ic16ih16oc16kh3")
    config = default_config("winograd", workload, V4)
    config = config.replace(mh=4, mw=4, rh=1, rw=4, rt=1, kr=1)
    assert not factors(make_kernel(workload, V4, "winograd", config)) & {0.0, 1.0}


@each_target
def test_products_are_one_tile_for_all_pixels_of_a_region(machine):
    workload = Conv2dWorkload.parse("ic32ih12oc32kh3ph1+bias+relu")
    config = default_config("winograd", workload, machine)
    config = config.replace(mh=4, mw=4, fused=1, rh=1, rw=3, rt=3, kr=2)
    kernel = make_kernel(workload, machine, "winograd", config)
    lanes = machine.lanes
    groups = "serial 2, " if lanes == 8 else ""
    # rows of tiles; 36 products; groups of output blocks where there are two; blocks of
    # channels; the register tile
    assert reduction_nests(kernel) == [
        f"parallel 3, serial 36, {groups}serial {32 // lanes}, serial {lanes}, "
        f"unrolled 3, unrolled 2, vectorized {lanes}"
    ]
