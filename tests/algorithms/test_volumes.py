"""Convolutions of volumes against float64: any depth, and the reference against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.frontend.onnx_runner import make_model, run_reference
from tests.kernels import (
    V3,
    alternating_machines,
    check_kernel,
    each_machine,
    run_by_threads,
    run_kernel,
)
from tests.strategies import (
    ConvArrays,
    conv2d_workloads,
    conv_arrays,
    depthwise_workloads,
    volumes,
)
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.measuring.reference import convolution

SMALL = {"max_size": 9, "max_kernel": 3}
dense = volumes(conv2d_workloads(**SMALL)).filter(lambda w: not w.is_depthwise)
depthwise = volumes(depthwise_workloads(**SMALL))
first = volumes(conv2d_workloads(groups=(1,), data_layouts=("NCHW",), **SMALL))
each_algorithm = pytest.mark.parametrize(
    "algorithm, workloads",
    [("direct", dense), ("depthwise", depthwise), ("direct_first", first)],
    ids=["direct", "depthwise", "direct_first"],
)


def by_onnxruntime(w: Conv2dWorkload, arrays: ConvArrays) -> np.ndarray:
    """The convolution without its epilogue, planes back in the batch.

    Padding is a node of its own, because Conv refuses windows that are wholly in the padding.
    """
    front_sides = (w.pad_front, w.pad_top, w.pad_left)
    back_sides = (w.pad_back, w.pad_bottom, w.pad_right)
    weight = arrays.weight.reshape(*w.weight_shape[:2], w.kernel_d, w.kernel_h, w.kernel_w)
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node(
            "Conv",
            ["padded", "w"],
            ["y"],
            strides=[w.stride_d, w.stride_h, w.stride_w],
            dilations=[w.dilation_d, w.dilation_h, w.dilation_w],
            group=w.groups,
        ),
    ]
    pads = np.array([0, 0, *front_sides, 0, 0, *back_sides])
    data = arrays.data.reshape(w.batch, w.in_depth, *w.data_shape[1:]).swapaxes(1, 2)
    model = make_model(nodes, {"x": data.shape}, ["y"], {"pads": pads, "w": weight})
    (result,) = run_reference(model, {"x": np.ascontiguousarray(data)})
    return result.swapaxes(1, 2).reshape(w.result_shape)


@settings(max_examples=60)
@given(workload=volumes(conv2d_workloads(with_epilogue=False, **SMALL)))
def test_the_reference_is_what_onnxruntime_computes(workload):
    arrays = conv_arrays(workload)
    exact = convolution(workload, {"data": arrays.data}, {"weight": arrays.weight})
    np.testing.assert_allclose(exact, by_onnxruntime(workload, arrays), rtol=0, atol=1e-5)


@each_machine
@each_algorithm
def test_any_problem(machine, algorithm, workloads):
    @settings(max_examples=4)
    @given(workload=workloads)
    def sweep(workload):
        check_kernel(workload, machine, algorithm)

    sweep()


@pytest.mark.slow
@each_machine
@each_algorithm
def test_any_problem_thoroughly(machine, algorithm, workloads):
    @settings(max_examples=150)
    @given(workload=workloads, cores=st.sampled_from((1, 3)))
    def sweep(workload, cores):
        check_kernel(workload, machine.with_cores(cores), algorithm)

    sweep()


@alternating_machines(
    "algorithm, problem",
    [
        ("direct", "ic20id4ih9oc36kd3kh3pd1ph1+bias+add+relu"),
        ("direct", "mb2ic24id5ih6oc20kd3kh1pd1+bias+relu"),
        ("direct", "mb2ic24id5ih7oc20kd1kh1sd2sh2+add"),
        ("direct", "mb2ic16id7ih5oc20kd3kh3sd2pd2ph2dd1dh1"),
        ("direct", "ic16id2ih5oc20kd3kh3pf2pk0ph1"),
        ("direct", "g2ic40id3ih5oc24kd3kh3pd1ph1+clip(0,6)"),
        ("depthwise", "g20mb2ic20id5ih9oc20kd3kh3sd2sh2pd1ph1+bias+silu"),
        ("depthwise", "g24ic24id9ih6oc24kd5kh1pd2"),
        ("direct_first", "mb2ic3id6ih13oc24kd3kh5sh2pd1ph2:nchw+bias+relu"),
        # no kernel element of the first and last plane is in the volume
        ("direct", "ic16id2ih5oc20kd2kh3pd2ph1+bias"),
    ],
)
def test_shapes_that_networks_use(machine, algorithm, problem):
    check_kernel(Conv2dWorkload.parse(problem), machine, algorithm)


def test_threads_do_not_change_a_bit():
    workload = Conv2dWorkload.parse("mb2ic24id5ih11oc40kd3kh3pd1ph1+bias+relu")
    arrays = conv_arrays(workload)
    results = [
        run_kernel(make_kernel(workload, V3.with_cores(cores), "direct"), arrays)
        for cores in (1, 2)
    ]
    results += run_by_threads(make_kernel(workload, V3, "direct"), arrays, repeats=1)
    assert all(np.array_equal(result, results[0]) for result in results)


def test_algorithms_without_a_sum_over_depth_say_so():
    for layout in ("", ":nchw"):
        workload = Conv2dWorkload.parse(f"ic16id4ih12oc32kd3kh3pd1ph1{layout}")
        taking = {
            name
            for name in registry.ALGORITHMS
            if registry.algorithm(name).unsupported(workload, V3) is None
        }
        assert taking == ({"direct_first"} if layout else {"direct", "winograd"})
    with pytest.raises(ConfigError, match="it sums over no depth"):
        make_kernel(Conv2dWorkload.parse("ic16id4ih12oc32kd3kh3pd1ph1"), V3, "im2col")
