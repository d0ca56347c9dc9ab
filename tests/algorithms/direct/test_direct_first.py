"""First-layer kernels against float64, every tile remainder included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host import HOST
from tests.kernels import STEPS, V3, V4, alternating_machines, check_kernel, each_machine
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.direct.direct_first import DirectFirst
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel


@each_machine
@settings(max_examples=4)
@given(workload=conv2d_workloads(groups=(1,), data_layouts=("NCHW", "NHWC")))
def test_any_problem(machine, workload):
    check_kernel(workload, machine, "direct_first")


@pytest.mark.slow
@each_machine
@settings(max_examples=250)
@given(
    workload=conv2d_workloads(
        groups=(1,), data_layouts=("NCHW", "NHWC"), max_size=40, max_kernel=8, max_stride=4
    ),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "direct_first")


@settings(max_examples=5)
@given(
    width=st.integers(3, 40),
    channels=st.sampled_from((16, 32, 40, 80)),
    oc=st.integers(1, 3),
    tile_h=st.integers(1, 2),
    tile_w=st.integers(1, 4),
    bands=st.integers(1, 3),
)
def test_every_remainder_of_every_tile(width, channels, oc, tile_h, tile_w, bands):
    workload = Conv2dWorkload.parse(f"ic3ih7iw{width}oc{channels}kh3sh2ph1:nchw+bias+relu")
    tile_w = min(tile_w, (HOST.vector_registers - oc - 1) // (oc * tile_h))
    config = Config.of(oc=oc, tile_h=tile_h, tile_w=tile_w, bands=bands)
    check_kernel(workload, HOST, "direct_first", config)


@alternating_machines("step", STEPS)
def test_every_epilogue_step(machine, step):
    check_kernel(Conv2dWorkload.parse(f"ic3ih6oc20kh3ph1:nchw+{step}"), machine, "direct_first")


@alternating_machines(
    "problem",
    [
        "ic3ih32oc64kh7sh2ph3:nchw+bias+relu",
        "ic3ih35oc24kh11sh4ph2:nchw",
        "ic3ih39oc96kh11sh4:nchw",
        "ic1ih28oc20kh5ph2:nchw+bias",
        "ic4ih17oc16kh3ph2dh1:nchw",
        "ic15ih9oc33kh1:nchw",
        "mb2ic3ih9iw14oc8kh2kw5sh1sw3pt1pl0pb0pr4:nchw",
        "ic1ih2iw150oc8kh1kw100pl90pr95:nchw",
    ],
)
def test_first_layers_of_networks(machine, problem):
    check_kernel(Conv2dWorkload.parse(problem), machine, "direct_first")


def test_only_ungrouped_plain_input():
    expression = DirectFirst()
    blocked = Conv2dWorkload.parse("ic3ih8oc16kh3ph1")
    assert "plain NCHW" in (expression.unsupported(blocked, V4) or "")
    grouped = Conv2dWorkload.parse("g2ic4ih8oc16kh3ph1:nchw")
    assert "groups" in (expression.unsupported(grouped, V4) or "")


def test_packed_weight_streams_in_reading_order():
    workload = Conv2dWorkload.parse("ic3ih8oc20kh3kw2:nchw")
    weight = np.random.default_rng(0).standard_normal((20, 3, 3, 2), dtype=np.float32)
    config = Config.of(oc=2, tile_h=1, tile_w=2, bands=1)
    packed = DirectFirst().pack_weight(weight, workload, V3, config)
    assert packed.shape == (2, 3, 2, 3, 2, 8)
    assert packed[0, 2, 1, 0, 1, 3] == weight[11, 0, 2, 1]
    assert packed[1, 0, 1, 2, 0, 3] == weight[19, 2, 0, 1]
    assert not packed[1, ..., 0, 4:].any()
    assert not packed[1, ..., 1, :].any()


def test_a_tile_beyond_the_registers_is_refused():
    workload = Conv2dWorkload.parse("ic3ih32oc64kh3ph1:nchw")
    with pytest.raises(ConfigError, match=r"needs 17 .* at most 16, as x86-64-v3 has"):
        make_kernel(workload, V3, "direct_first", Config.of(oc=2, tile_h=1, tile_w=7, bands=1))
