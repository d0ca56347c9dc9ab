"""Direct kernels against float64: any problem, every tile remainder, every epilogue step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host import HOST
from tests.kernels import (
    STEPS,
    SURPLUS,
    V3,
    V4,
    alternating_machines,
    check_kernel,
    compile_kernel,
    default_config,
    dense,
    each_machine,
    run_by_threads,
    run_kernel,
)
from tests.layout import block, unblock
from tests.strategies import conv2d_workloads, conv_arrays
from tvmconv.algorithms.direct.direct import Direct
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.measuring.reference import convolution

config_for = partial(default_config, "direct")


@each_machine
@settings(max_examples=4)
@given(workload=conv2d_workloads(max_size=14).filter(dense))
def test_any_problem(machine, workload):
    check_kernel(workload, machine, "direct")


@pytest.mark.slow
@each_machine
@settings(max_examples=250)
@given(
    workload=conv2d_workloads(max_size=40, max_kernel=8).filter(dense),
    cores=st.sampled_from((1, 3)),
)
def test_any_problem_thoroughly(machine, workload, cores):
    check_kernel(workload, machine.with_cores(cores), "direct")


@settings(max_examples=5)
@given(
    width=st.integers(1, 20),
    height=st.integers(1, 9),
    channels=st.integers(1, 80),
    stride=st.integers(1, 2),
    kernel=st.sampled_from((1, 3)),
    oc=st.integers(1, 4),
    oh=st.integers(1, 2),
    ow=st.integers(1, 6),
    rows=st.integers(0, 3),
    fetch=st.integers(0, 3),
)
def test_every_remainder_of_every_tile(
    width, height, channels, stride, kernel, oc, oh, ow, rows, fetch
):
    text = f"ic20ih{height}iw{width}oc{channels}kh{kernel}sh{stride}ph{kernel // 2}+bias+relu"
    workload = Conv2dWorkload.parse(text)
    room = HOST.vector_registers - oc - 1
    tile = {"oc": oc, "oh": oh, "ow": min(ow, room // (oc * oh)), "rows": rows}
    config = config_for(workload, HOST, fetch_input=fetch & 1, fetch_weight=fetch >> 1, **tile)
    check_kernel(workload, HOST, "direct", config)


@alternating_machines("step", STEPS)
def test_every_epilogue_step(machine, step):
    check_kernel(Conv2dWorkload.parse(f"ic20ih5oc20kh1+{step}"), machine, "direct")


@alternating_machines(
    "problem",
    [
        "mb1ic32ih9oc50kh3sh2ph1+bias+add+relu",
        "ic24ih6iw40oc40kh1kw7ph0pw3",
        "ic24ih40iw6oc40kh7kw1ph3pw0",
        "ic16ih12oc20kh3ph4dh3",
        "ic3ih13oc18kh5sh2ph2",
        "mb2ic40ih5iw7oc48kh1+bias",
        "g3ic30ih7oc60kh3ph1",
        "g16ic16ih7oc32kh3ph1",
        "ic16ih5oc16kh2pt1pl0pb0pr1",
        "ic4ih1iw130oc32kh1kw120pl100pr110",
        "ic2ih3iw90oc8kh2kw40sw1pl39pr45pt1",
    ],
)
def test_shapes_that_networks_use(machine, problem):
    check_kernel(Conv2dWorkload.parse(problem), machine, "direct")


@pytest.mark.parametrize("problem", ["ic16ih6oc16kh3ph1+relu", "ic16ih6oc16kh1"])
def test_the_three_algorithms_of_the_paper(problem):
    workload = Conv2dWorkload.parse(problem)
    forms = registry.steps("direct", V3)
    assert [name for name, _ in forms] == ["direct_naive", "direct_naive", "direct"]
    for name, knobs in forms:
        config = registry.default_config(name, workload, V3).replace(**knobs)
        check_kernel(workload, V3, name, config)
        size = registry.algorithm(name).workspace_bytes(workload, V3, config)
        assert size == (0 if name == "direct" else 4 * 16 * 6 * 6)


def test_three_layers_run_in_one_layout():
    """A layer's output is the next one's input without any change, surplus lanes included."""
    texts = ["ic20ih9oc36kh3ph1+relu", "ic36ih9oc20kh1", "ic20ih9oc12kh3sh2ph1"]
    workloads = [Conv2dWorkload.parse(text) for text in texts]
    arrays = [conv_arrays(w, seed) for seed, w in enumerate(workloads)]
    actual, expected = block(arrays[0].data, V3.lanes, SURPLUS), arrays[0].data
    for w, operands in zip(workloads, arrays, strict=True):
        kernel = make_kernel(w, V3, "direct")
        shape = (1, V3.blocks(w.out_channels), w.out_height, w.out_width, V3.lanes)
        tensors = [actual, kernel.pack_weight(operands.weight), np.empty(shape, np.float32)]
        tensors = [tvm.runtime.tensor(array) for array in tensors]
        compile_kernel(kernel)["main"](*tensors)
        actual = tensors[-1].numpy()
        expected = convolution(w, {"data": expected}, {"weight": operands.weight})
    error = np.abs(unblock(actual, 12) - expected).max()
    assert error <= 1e-5 * np.abs(expected).max()


def test_threads_do_not_change_a_bit():
    workload = Conv2dWorkload.parse("mb2ic24ih11oc40kh3ph1+bias+relu")
    arrays = conv_arrays(workload)
    results = [
        run_kernel(make_kernel(workload, V3.with_cores(cores), "direct"), arrays)
        for cores in (1, 2)
    ]
    results += run_by_threads(make_kernel(workload, V3, "direct"), arrays)
    assert all(np.array_equal(result, results[0]) for result in results)


def test_packed_weight_holds_every_value_once():
    workload = Conv2dWorkload.parse("ic20ih8oc40kh3kw2")
    config = config_for(workload, V3, oc=3)
    weight = np.arange(1, 4801, dtype=np.float32).reshape(40, 20, 3, 2)
    packed = Direct().pack_weight(weight, workload, V3, config)
    assert packed.shape == Direct().packed_weight_shape(workload, V3, config)
    assert packed[1, 2, 1, 1, 3, 0, 5] == weight[3 * 8 + 5, 2 * 8 + 3, 1, 1]
    assert np.array_equal(np.sort(packed[packed != 0]), np.sort(weight.ravel()))


def test_whole_blocks_need_no_padding():
    workload = Conv2dWorkload.parse("ic32ih8oc64kh3")
    config = config_for(workload, V4)
    shape = Direct().packed_weight_shape(workload, V4, config)
    assert np.prod(shape) == 32 * 64 * 9
    assert Direct().multiplies(workload, V4, config) == workload.macs


def test_what_it_cannot_compute_is_said():
    plain = replace(Conv2dWorkload.parse("ic16ih8oc16kh3ph1"), data_layout="NCHW")
    assert "channel-blocked" in (Direct().unsupported(plain, V4) or "")
    depthwise = Conv2dWorkload.parse("g16ic16ih8oc16kh3ph1")
    assert "depthwise" in (Direct().unsupported(depthwise, V4) or "")


def test_knobs_outside_the_machine_are_refused():
    workload = Conv2dWorkload.parse("ic64ih32oc64kh3ph1")
    for values, message in [
        ({"oc": 4, "oh": 1, "ow": 7}, "needs 33 vector registers"),
        ({"ow": 0}, "Expected 1 or more"),
        ({"fetch_input": 2}, "must be one of 0, 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            make_kernel(workload, V4, "direct", config_for(workload, V4, **values))
