"""Kernels that rescale in integers alone, against 64-bit integers, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.assembly import assembly
from tests.kernels import V3, alternating_machines
from tests.schedules.test_integers import DEFAULT, ICELAKE, computed, each_machine, outputs
from tvmconv.core.errors import ConfigError, WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.arguments import constant_arguments
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import exact_output, random_integers

FIXED = ":u8s8s32u8:fixed"
LAYERS = [
    ("direct", f"ic32ih14oc64kh3ph1{FIXED}+bias"),
    ("direct", f"ic20ih12oc24kh1{FIXED}+bias+quantise+add"),
    ("direct", f"ic32ih8oc32kh1{FIXED}+bias+add"),
    ("direct", f"ic32ih8oc33kh3ph1{FIXED}:zpdata+bias+quantise+add+quantise"),
    ("direct", "ic18ih7oc33kh3pt1pl0pb2pr1:u8s16s32u8:fixed:zpdata+bias+quantise"),
    ("direct_first", f"ic3ih32oc40kh7sh2ph3:nchw{FIXED}:zpdata+bias"),
    ("depthwise", f"g32ic32ih9oc32kh3ph1{FIXED}:zpdata+bias"),
]


@alternating_machines("algorithm, text", LAYERS, DEFAULT)
def test_rescaled_sums_are_those_of_the_definition(algorithm: str, text: str, machine: Machine):
    actual, expected = outputs(make_kernel(Conv2dWorkload.parse(text), machine, algorithm))
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 10


@each_machine
def test_winograd_rescales_as_direct_convolution_does(machine: Machine):
    workload = Conv2dWorkload.parse(f"ic16ih12oc32kh3ph1{FIXED}:zpdata+bias+quantise+add")
    operands = random_integers(workload, largest_sum=2**17)
    expected = exact_output(workload, operands)
    for algorithm in ("winograd", "direct"):
        kernel = make_kernel(workload, machine, algorithm)
        np.testing.assert_array_equal(computed(kernel, operands), expected)


def test_products_of_bytes_are_rescaled_too():
    workload = Conv2dWorkload.parse(f"ic32ih8oc32kh3ph1{FIXED}:zpdata+bias+quantise+add")
    kernel = make_kernel(workload, V3, "direct_bytes")
    operands = random_integers(workload, halved=True)
    np.testing.assert_array_equal(computed(kernel, operands), exact_output(workload, operands))


@pytest.mark.parametrize("machine", [V3, ICELAKE], ids=lambda machine: machine.mcpu)
def test_a_vector_of_sums_takes_two_multiplications(machine: Machine):
    kernel = make_kernel(Conv2dWorkload.parse(LAYERS[0][1]), machine, "direct")
    code = assembly(kernel)
    assert not code.has(r"vcvt|vpmuludq|vpmullq|vpmovsxdq")
    products, shifts = (code.count(name) for name in ("vpmuldq", "vpsravd"))
    assert products == 2 * shifts > 0


def test_arm_rescales_a_vector_by_two_instructions():
    text = "ic64ih28oc64kh3ph1:s8s8s32s8:fixed+bias"
    kernel = make_kernel(Conv2dWorkload.parse(text), MACHINES["neoverse-n1"], "direct")
    code = assembly(kernel)
    assert not code.count("scvtf|fmul|fcvtns")
    assert code.count("srshl") == code.count("sqdmulh") > 0


def test_steps_without_integers_are_refused():
    workload = Conv2dWorkload.parse(f"ic16ih8oc16kh1{FIXED}+bias+silu")
    with pytest.raises(ConfigError, match="fixed point has no 'silu' step"):
        make_kernel(workload, V3, "direct")


def test_scales_without_integers_are_refused():
    workload = Conv2dWorkload.parse(f"ic16ih8oc16kh1{FIXED}+bias")
    kernel = make_kernel(workload, V3, "direct")
    given = random_integers(workload).constants
    large = replace(given, scale=np.full(16, 0.25), bias=given.bias * 0)
    with pytest.raises(WorkloadError, match="a scale of its sums is a quarter or more"):
        constant_arguments(kernel, large)
