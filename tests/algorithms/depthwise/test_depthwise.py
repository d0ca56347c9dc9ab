"""Depthwise kernels against float64, every tile remainder included."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assembly import assembly
from tests.host import HOST
from tests.kernels import STEPS, V3, V4, alternating_machines, check_kernel, each_machine
from tests.strategies import depthwise_workloads
from tvmconv.algorithms.depthwise.depthwise import Depthwise
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.presets import MACHINES
from tvmconv.selection.select import select


@each_machine
@settings(max_examples=5)
@given(workload=depthwise_workloads())
def test_any_problem(machine, workload):
    check_kernel(workload, machine, "depthwise")


@pytest.mark.slow
@each_machine
@settings(max_examples=250)
@given(workload=depthwise_workloads(max_size=40, max_kernel=8), cores=st.sampled_from((1, 3)))
def test_any_problem_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "depthwise")


@settings(max_examples=5)
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


@alternating_machines(
    "problem",
    [
        "g32ic32ih9iw11oc64kh7ph3+bias+relu",
        "g12ic48ih8oc48kh3sh2ph1",
        "g5ic10ih7iw19oc20kh3pt2pl0pb0pr1+bias+add",
        "mb2g8ic8ih6oc32kh3dh1ph2",
        "g16ic32ih1iw40oc64kh1",
    ],
)
def test_groups_of_a_few_channels(machine, problem):
    workload = Conv2dWorkload.parse(problem)
    check_kernel(workload, machine, "depthwise")
    assert select(workload, machine).chosen.algorithm == "depthwise"


@each_machine
@pytest.mark.parametrize("problem", ["g32ic32ih16oc64kh3ph1", "g32ic128ih16oc128kh3ph1"])
def test_inputs_of_small_groups_are_loaded_as_vectors(machine, problem):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, "depthwise")
    text = assembly(kernel).text
    assert re.search(r"vpermp?s|vshufps|vpermilps", text)
    assert not re.search(r"vinsertps|vgather", text)


def test_only_depthwise_problems():
    expression = Depthwise()
    dense = Conv2dWorkload.parse("ic16ih8oc16kh3ph1")
    assert "not depthwise" in (expression.unsupported(dense, V4) or "")
    # groups of a block, groups that no block divides, and more inputs than outputs
    for problem in ("g2ic32ih8oc32kh3", "g5ic20ih8oc60kh3", "g16ic32ih8oc16kh3"):
        grouped = Conv2dWorkload.parse(problem)
        assert "do not share" in (expression.unsupported(grouped, V4) or "")
    small = Conv2dWorkload.parse("g4ic16ih8oc16kh3")
    assert expression.unsupported(small, V4) is None
    assert "do not share" in (expression.unsupported(small, MACHINES["neoverse-n1"]) or "")
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
