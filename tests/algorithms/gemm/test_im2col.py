"""im2col kernels against float64, and their panels against the index formula."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from tests.assembly import assembly, matching
from tests.kernels import (
    V3,
    V4,
    allocated,
    check_kernel,
    default_config,
    dense,
    each_machine,
    each_target,
    run_kernel,
)
from tests.layout import block, unblock
from tests.strategies import conv2d_workloads, conv_arrays
from tvmconv.algorithms.gemm.im2col import Im2col
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.measuring.reference import convolution

config_for = partial(default_config, "im2col")


def supported(workload):
    return dense(workload) and (workload.data_layout == "NCHWc" or workload.groups == 1)


@each_machine
@settings(max_examples=4)
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


@pytest.mark.parametrize("layout", ["", ":nchw"])
@pytest.mark.parametrize(
    "problem", ["ic3ih227oc96kh11sh4", "mb3ic32ih27oc48kh5ph2", "mb10ic48ih13oc32kh3ph1"]
)
def test_layers_of_the_paper_at_its_batches(problem, layout):
    """FTEngine's tables 5.2 to 5.5: AlexNet's windows; batches of 1, 3 and 10."""
    workload = Conv2dWorkload.parse(problem + layout)
    check_kernel(workload, V3, "im2col", config_for(workload, V3))


@pytest.mark.parametrize("layout", ["", ":nchw"])
@pytest.mark.parametrize("values", [{}, {"mc": 0}])
def test_padding_is_zero_in_a_buffer_that_held_other_values(layout, values):
    """A call on NaN leaves NaN in the workspace, which the next call gets again."""
    workload = Conv2dWorkload.parse(f"ic32ih14oc32kh3ph1{layout}")
    kernel = make_kernel(workload, V3, "im2col", config_for(workload, V3, **values))
    arrays = conv_arrays(workload)
    spoilt = replace(arrays, data=np.full_like(arrays.data, np.nan))
    assert np.isnan(run_kernel(kernel, spoilt)).all()
    actual = unblock(run_kernel(kernel, arrays), 32)
    expected = convolution(workload, {"data": arrays.data}, {"weight": arrays.weight})
    np.testing.assert_allclose(actual, expected, atol=1e-5 * np.abs(expected).max())


@each_target
@pytest.mark.parametrize("stride", [1, 2])
def test_copies_from_channel_blocks_are_whole_vectors(machine, stride):
    workload = Conv2dWorkload.parse(f"ic32ih28oc32kh3ph1sh{stride}")
    kernel = make_kernel(workload, machine, "im2col", config_for(workload, machine))
    code = assembly(kernel)
    assert not code.has(r"\bv(p?gather|p?scatter|movss)")
    assert matching(rf"vmovups\s+%{code.register}", code.lines)


@each_target
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


@pytest.mark.parametrize("layout", ["", ":nchw"])
def test_panels_hold_a_window_of_every_pixel(layout):
    """A[p / mr][channel block][tap][p mod mr][channel], or one channel at a time; zeros outside."""
    workload = Conv2dWorkload.parse(f"ic20ih5iw6oc16kh3kw2sh2ph1pw1{layout}")
    w, lanes = workload, V4.lanes
    arguments = Im2col().compute(workload, V4, config_for(workload, V4, oc=1, mr=4))
    panel = arguments[-1]
    while panel.op.name != "pack":
        panel = panel.op.input_tensors[0]
    data = conv_arrays(workload).data
    plain = data if layout else block(data, lanes, 0.0)
    result = tvm.runtime.empty([int(extent) for extent in panel.shape], "float32")
    function = te.create_prim_func([arguments[0], panel])
    tvm.tirx.build(function, target="llvm")["main"](tvm.runtime.tensor(plain), result)
    packed = result.numpy()
    padded = np.zeros((32, 5 + 2, 6 + 2), np.float32)
    padded[:20, 1:-1, 1:-1] = data[0]
    for p in range(packed.shape[1] * 4):
        y, x = divmod(p, w.out_width)
        window = np.zeros((32, 3, 2), np.float32)
        if y < w.out_height:
            window = padded[:, 2 * y : 2 * y + 3, 2 * x : 2 * x + 2]
        # (channel block, row, column, channel)
        blocked = window[:20, :, :, None]
        if not layout:
            blocked = window.reshape(2, lanes, 3, 2).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(packed[0, p // 4, :, :, :, p % 4], blocked)


@pytest.mark.parametrize(
    "values", [{"mr": 20, "oc": 2}, {"mc": 5}, {"kc": 3}, {"mr": 0}, {"mc": -1}]
)
def test_impossible_knobs_are_refused(values):
    workload = Conv2dWorkload.parse("ic64ih14oc64kh3")
    config = config_for(workload, V4, **{"mr": 12, "oc": 2, "mc": 1, **values})
    with pytest.raises(ConfigError, match=r"Expected|must"):
        make_kernel(workload, V4, "im2col", config)
