"""Fully connected layers by Strassen's algorithm, against float64, and where they are taken."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests import kernels
from tests.kernels import (
    V3,
    V4,
    allocated,
    alternating_machines,
    each_target,
    run_by_threads,
    run_kernel,
    tasks,
)
from tests.strategies import conv_arrays
from tvmconv.algorithms.gemm.dense_strassen import DenseStrassen
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.targets import resolve_machine
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import select

NAME = "dense_strassen"
check = partial(kernels.check_announced, NAME)
# a layer of ViT-Ti
LAYER = "mb197ic192ih1oc768kh1:nc+bias"


def layer(rows, inputs, outputs, epilogue="+bias"):
    return Conv2dWorkload.parse(f"mb{rows}ic{inputs}ih1oc{outputs}kh1:nc{epilogue}")


@alternating_machines(
    "shape",
    [
        (37, 64, 96, "+bias+add+relu"),  # an odd number of rows, in a tile that exceeds them
        (2, 32, 32, ""),
        (50, 96, 64, "+gelu"),
        (7, 32, 160, "+add"),  # five vectors in half of the outputs
    ],
)
def test_layers(machine, shape):
    check(layer(*shape), machine)


@alternating_machines("seed", range(4))
def test_any_config(machine, seed):
    workload = layer(45, 64, 192, "+bias+add")
    check(workload, machine, kernels.any_config(NAME, workload, machine, seed))


def test_seven_of_eight_products_are_made():
    workload = layer(88, 64, 64)
    config = Config.of(half=22, rows=11, width=2)
    assert DenseStrassen().multiplies(workload, V4, config) * 8 == workload.macs * 7


def test_packed_weights_are_sums_of_quarters():
    workload, config = layer(4, 64, 64), Config.of(half=2, rows=2, width=1)
    weight = np.random.default_rng(0).standard_normal((64, 64, 1, 1)).astype(np.float32)
    packed = DenseStrassen().pack_weight(weight, workload, V4, config)
    plain = weight[:, :, 0, 0].T.astype(np.float64)
    b11, b12, b21, b22 = plain[:32, :32], plain[:32, 32:], plain[32:, :32], plain[32:, 32:]
    for q, expected in {0: b11, 1: b21, 4: b12 - b11, 6: b22 - b12}.items():
        # (panel, product, input, output) to (input, output)
        found = packed[:, q].transpose(1, 0, 2).reshape(32, 32)
        np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("half", [11, 22])
def test_workspace_is_what_is_said(half):
    kernel = make_kernel(layer(40, 64, 64), V3, NAME, Config.of(half=half, rows=11, width=1))
    said = DenseStrassen().workspace_bytes(kernel.workload, V3, kernel.config)
    assert said <= allocated(kernel) <= said + 128


def test_threads_do_not_change_the_result():
    config = Config.of(half=6, rows=3, width=2)
    kernel = make_kernel(layer(29, 64, 64), V3.with_cores(2), NAME, config)
    results = run_by_threads(kernel, conv_arrays(kernel.workload))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_nan_stays_in_its_pair_of_rows():
    kernel = make_kernel(layer(7, 32, 32), V3, NAME)
    arrays = conv_arrays(kernel.workload)
    data = arrays.data.copy()
    data[2] = np.nan
    result = run_kernel(kernel, replace(arrays, data=data))
    assert np.flatnonzero(np.isnan(result).any(1)).tolist() == [2, 3]


@pytest.mark.parametrize("rows", [40, 37])
def test_threads_share_regions(rows):
    """The last region may exceed the rows."""
    config = Config.of(half=10, rows=5, width=2)
    assert tasks(make_kernel(layer(rows, 64, 64), V3.with_cores(2), NAME, config)) == [2]


@pytest.mark.parametrize(
    "shape, reason",
    [
        ((1, 64, 64), "a single row"),
        ((8, 48, 64), "not 48 inputs"),
        ((8, 64, 40), "not 40 outputs"),
    ],
)
def test_what_it_cannot_compute_is_said(shape, reason):
    assert reason in (DenseStrassen().unsupported(layer(*shape), V4) or "")


def test_machines_without_figures_do_not_take_it():
    for name in ("neoverse-n1", "neoverse-v1", "riscv64-v256"):
        reason = DenseStrassen().unsupported(layer(8, 64, 64), resolve_machine(name))
        assert "no measurement" in (reason or "")


@pytest.mark.parametrize(
    "values", [{"half": 0}, {"half": 100}, {"width": 5}, {"rows": 33, "half": 99}]
)
def test_impossible_knobs_are_refused(values):
    config = Config.of(half=99, rows=11, width=2).replace(**values)
    with pytest.raises(ConfigError, match=r"Expected|vector registers"):
        make_kernel(Conv2dWorkload.parse(LAYER), V4, NAME, config)


@each_target
def test_many_rows_take_it_unless_inputs_or_errors_forbid(machine):
    workload = layer(197, 768, 3072)
    assert select(workload, machine).chosen.algorithm == NAME
    for policy in (make_policy(finite=False), make_policy(error_budget=0.0)):
        assert select(workload, machine, policy=policy).chosen.algorithm == "dense"
    # few rows wait for weights, which are larger, and few outputs for sums of the data
    for shape in ((8, 2048, 1024), (3136, 256, 64)):
        assert select(layer(*shape), machine).chosen.algorithm == "dense"
