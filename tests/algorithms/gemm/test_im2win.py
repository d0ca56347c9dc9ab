"""im2win kernels against float64, and the window tensor against its index formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import (
    V3,
    V4,
    allocated,
    alternating_machines,
    check_kernel,
    default_config,
    dense,
    each_machine,
    each_target,
)
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.gemm.im2win import Im2win, columns
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel

LEVELS = ("base", "reorder", "vector", "unroll", "register", "cache", "parallel")


@each_machine
@settings(max_examples=5)
@given(workload=conv2d_workloads(max_size=14).filter(dense))
def test_any_problem(machine, workload):
    check_kernel(workload, machine, "im2win")


@pytest.mark.slow
@each_machine
@settings(max_examples=150)
@given(
    workload=conv2d_workloads(max_size=40, max_kernel=8).filter(dense),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "im2win")


@alternating_machines("level", LEVELS)
@settings(max_examples=2)
@given(
    workload=conv2d_workloads(
        max_size=12, groups=(1,), channels=(1, 3, 5, 17), data_layouts=("NCHW",)
    )
)
def test_every_level_of_the_ladder(machine, level, workload):
    config = default_config("im2win_nchw", workload, machine, level=level)
    check_kernel(workload, machine, "im2win_nchw", config)


# last tiles and squares, one channel of a last block, short rows, few channels, squares only
ROWS = [
    "mb2ic3ih9iw7oc49kh3kw2sh2sw1:nchw+bias+add",
    "ic5ih11iw37oc20kh3ph1:nchw+bias+relu",
    "ic4ih5oc7kh1:nchw",
    "mb2ic2ih4iw34oc64kh3:nchw",
]


@alternating_machines("problem", ROWS)
def test_rows_of_nchw(machine, problem):
    check_kernel(Conv2dWorkload.parse(problem), machine, "im2win_nchw")


@pytest.mark.slow
@each_machine
@settings(max_examples=100)
@given(
    workload=conv2d_workloads(max_size=40, max_kernel=8, groups=(1,), data_layouts=("NCHW",)),
    cores=st.sampled_from((1, 3)),
)
def test_rows_of_nchw_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "im2win_nchw")


@each_target
@pytest.mark.parametrize("rows", [1, 2, 7, 14])
@pytest.mark.parametrize("oh", [1, 3, 4])
def test_workspace_is_that_of_one_region(machine, rows, oh):
    workload = Conv2dWorkload.parse("ic32ih14oc32kh3ph1")
    config = default_config("im2win", workload, machine, oc=1, oh=oh, ow=2, rows=rows)
    kernel = make_kernel(workload, machine, "im2win", config)
    assert allocated(kernel) == kernel.expression.workspace_bytes(workload, machine, kernel.config)


@each_target
@pytest.mark.parametrize("level", ["base", "unroll", "parallel"])
def test_workspace_of_the_whole_tensor(machine, level):
    # rows that are too long for the stack
    workload = Conv2dWorkload.parse("ic4ih34oc32kh3ph1:nchw")
    config = default_config("im2win_nchw", workload, machine, level=level)
    kernel = make_kernel(workload, machine, "im2win_nchw", config)
    assert allocated(kernel) == kernel.expression.workspace_bytes(workload, machine, kernel.config)


def test_windows_are_runs_of_the_strip():
    """Equation 2-2 with stride: window (m, n) starts at n * s * Hf and is Hf * Wf long."""
    workload = Conv2dWorkload.parse("mb1ic2ih7iw9oc4kh3kw2sh2sw1")
    image = np.random.default_rng(0).standard_normal((2, 7, 9)).astype("float32")
    weight = np.random.default_rng(1).standard_normal((4, 2, 3, 2)).astype("float32")
    shape = (2, workload.out_height, columns(workload) * 3)
    strips = np.empty(shape, np.float32)
    for c, m, k, u in np.ndindex(2, shape[1], columns(workload), 3):
        strips[c, m, k * 3 + u] = image[c, 2 * m + u, k]
    packed = Im2win().pack_weight(weight, workload, V3, default_config("im2win", workload, V3))
    for m, x in np.ndindex(workload.out_height, workload.out_width):
        window = strips[:, m, x * 3 : x * 3 + 6].reshape(2, 2, 3)
        run = np.einsum("cvu,vucj->j", window, packed[0, 0, :, :, :2, 0, :4])
        expected = (weight * image[:, 2 * m : 2 * m + 3, x : x + 2]).sum(axis=(1, 2, 3))
        np.testing.assert_allclose(run, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "problem", "values"),
    [
        ("im2win", "ic32ih14oc32kh3", {"rows": 5}),
        ("im2win", "ic32ih14oc64kh3", {"oc": 4, "ow": 12}),
        ("im2win_nchw", "ic3ih14oc32kh3:nchw", {"level": "fast"}),
        ("im2win_nchw", "ic3ih14oc32kh3:nchw", {"ow": 31}),
    ],
)
def test_impossible_knobs_are_refused(name, problem, values):
    workload = Conv2dWorkload.parse(problem)
    config = default_config(name, workload, V4, **values)
    with pytest.raises(ConfigError, match=r"Expected|must"):
        make_kernel(workload, V4, name, config)
