"""im2col kernels against float64, and their panels against the index formula."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import V4, allocated, check_kernel, default_config, dense, each_machine
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.im2col import Im2col
from tvmconv.errors import ConfigError
from tvmconv.kernel import make_kernel
from tvmconv.workload import Conv2dWorkload

config_for = partial(default_config, "im2col")


def supported(workload):
    return dense(workload) and (workload.data_layout == "NCHWc" or workload.groups == 1)


@each_machine
@settings(max_examples=6)
@given(
    workload=conv2d_workloads(max_size=14, data_layouts=("NCHW", "NCHWc")).filter(supported),
    mc=st.sampled_from((None, 0, 1)),
    kc=st.sampled_from((0, 1)),
)
def test_any_problem(machine, workload, mc, kc):
    config = config_for(workload, machine, kc=kc)
    check_kernel(workload, machine, "im2col", config if mc is None else config.replace(mc=mc))


@pytest.mark.slow
@each_machine
@settings(max_examples=120)
@given(
    workload=conv2d_workloads(max_size=40, max_kernel=8, data_layouts=("NCHW", "NCHWc")).filter(
        supported
    ),
    mc=st.sampled_from((None, 0, 1)),
    kc=st.sampled_from((0, 1)),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, mc, kc, cores):
    machine = machine.with_cores(cores)
    config = config_for(workload, machine, kc=kc)
    check_kernel(workload, machine, "im2col", config if mc is None else config.replace(mc=mc))


@each_machine
@pytest.mark.parametrize("layout", ["", ":nchw"])
@pytest.mark.parametrize("values", [{}, {"mc": 0}, {"kc": 1}])
def test_workspace_is_what_is_said(machine, layout, values):
    workload = Conv2dWorkload.parse(f"ic32ih14oc32kh3ph1{layout}")
    kernel = make_kernel(workload, machine, "im2col", config_for(workload, machine, **values))
    said = kernel.expression.workspace_bytes(workload, machine, kernel.config)
    assert allocated(kernel) == said


@pytest.mark.parametrize("layout", ["", ":nchw"])
def test_weights_are_panels_of_nr_channels(layout):
    """B[k / nr][depth][k mod nr], nr output channels contiguous."""
    workload = Conv2dWorkload.parse(f"ic16ih8oc40kh3kw2{layout}")
    weight = np.random.default_rng(0).standard_normal((40, 16, 3, 2)).astype("float32")
    config = config_for(workload, V4, oc=2, mr=4)
    packed = Im2col().pack_weight(weight, workload, V4, config)
    depth = 16 * 3 * 2
    panels = packed.reshape(2, depth, 32)
    for k, d in np.ndindex(40, depth):
        plain = layout == ":nchw"
        c, r, s = (d // 6, d // 2 % 3, d % 2) if plain else (d % 16, d // 32, d // 16 % 2)
        assert panels[k // 32, d, k % 32] == weight[k, c, r, s]
    assert not panels[1, :, 8:].any()


@pytest.mark.parametrize(
    "values", [{"mr": 20, "oc": 2}, {"mc": 5}, {"kc": 3}, {"mr": 0}, {"mc": -1}]
)
def test_impossible_knobs_are_refused(values):
    workload = Conv2dWorkload.parse("ic64ih14oc64kh3")
    config = config_for(workload, V4, **{"mr": 12, "oc": 2, "mc": 1, **values})
    with pytest.raises(ConfigError, match=r"must|smaller"):
        make_kernel(workload, V4, "im2col", config)
