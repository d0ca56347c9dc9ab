"""Depthwise kernels against float64, every tile remainder included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host import HOST
from tests.kernels import STEPS, V3, V4, alternating_machines, check_kernel, each_machine
from tests.strategies import depthwise_workloads
from tvmconv.algorithms.depthwise.depthwise import Depthwise
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel


@each_machine
@settings(max_examples=8)
@given(workload=depthwise_workloads())
def test_any_problem(machine, workload):
    check_kernel(workload, machine, "depthwise")


@pytest.mark.slow
@each_machine
@settings(max_examples=250)
@given(workload=depthwise_workloads(max_size=40, max_kernel=8), cores=st.sampled_from((1, 3)))
def test_any_problem_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "depthwise")


@settings(max_examples=8)
@given(
    width=st.integers(1, 24),
    height=st.integers(1, 9),
    stride=st.integers(1, 2),
    tile_h=st.integers(1, 3),
    tile_w=st.integers(1, 9),
    bands=st.integers(1, 3),
)
def test_every_remainder_of_every_tile(width, height, stride, tile_h, tile_w, bands):
    workload = Conv2dWorkload.parse(f"g16ic16ih{height}iw{width}oc16kh3sh{stride}ph1+bias+relu")
    tile_w = min(tile_w, (HOST.vector_registers - 2) // tile_h)
    config = Config.of(tile_h=tile_h, tile_w=tile_w, bands=min(bands, workload.out_height))
    check_kernel(workload, HOST, "depthwise", config)


@alternating_machines("step", STEPS)
def test_every_epilogue_step(machine, step):
    check_kernel(Conv2dWorkload.parse(f"g20ic20ih5oc20kh3ph1+{step}"), machine, "depthwise")


@alternating_machines(
    "problem",
    [
        "g40ic40ih14oc40kh5ph2+bias+hardswish",
        "g24ic24ih12oc24kh7ph3",
        "g17ic17ih15oc17kh3ph2dh1",
        "g8ic8ih21oc8kh3kw1sh3sw1pt2pl0pb0pr0",
        "mb2g16ic16ih4oc16kh4pt3pl0pb0pr2",
        "g32ic32ih20oc32kh13ph6",
    ],
)
def test_kernels_of_other_sizes(machine, problem):
    check_kernel(Conv2dWorkload.parse(problem), machine, "depthwise")


def test_only_depthwise_problems():
    expression = Depthwise()
    dense = Conv2dWorkload.parse("ic16ih8oc16kh3ph1")
    assert "not depthwise" in (expression.unsupported(dense, V4) or "")
    multiplied = Conv2dWorkload.parse("g16ic16ih8oc32kh3ph1")
    assert "not depthwise" in (expression.unsupported(multiplied, V4) or "")
    plain = replace(Conv2dWorkload.parse("g16ic16ih8oc16kh3ph1"), data_layout="NCHW")
    assert "channel-blocked" in (expression.unsupported(plain, V4) or "")


def test_packed_weight_is_tap_major_and_zero_padded():
    workload = Conv2dWorkload.parse("g5ic5ih8oc5kh3kw2")
    weight = np.arange(30, dtype=np.float32).reshape(5, 1, 3, 2) + 1
    config = Config.of(tile_h=1, tile_w=2, bands=1)
    packed = Depthwise().pack_weight(weight, workload, V3, config)
    assert packed.shape == Depthwise().packed_weight_shape(workload, V3, config) == (1, 3, 2, 8)
    assert packed[0, 2, 1, 4] == weight[4, 0, 2, 1]
    assert not packed[..., 5:].any()


def test_a_tile_beyond_the_registers_is_refused():
    workload = Conv2dWorkload.parse("g16ic16ih32oc16kh3ph1")
    with pytest.raises(ConfigError, match="tile 2x8 needs 18 vector registers"):
        make_kernel(workload, V3, "depthwise", Config.of(tile_h=2, tile_w=8, bands=1))
