"""Kernels for 8 bits that copy data or weights first, against 64-bit integers, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import V3, V4, default_config, executed_on
from tests.schedules.test_integers import computed
from tvmconv.bench.integers import exact_output, random_integers
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine


@pytest.mark.parametrize(
    "machine", [executed_on(V3), executed_on(V4)], ids=lambda machine: machine.mcpu
)
@pytest.mark.parametrize(
    "text", ["mb2ic15ih1iw11oc40kh1kw3pl2", "mb2ic40ih5iw11oc24kh3ph1sh2", "ic72ih14oc16kh3ph1"]
)
def test_complements_beside_a_copy_are_exact(text: str, machine: Machine):
    """Small copies, too, which were cut into a buffer for each complement."""
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8:zpdata+bias")
    operands = random_integers(workload, 1)
    config = Config.of(oh=1, ow=5, rows=0, excess=0, packed=1, shares=1)
    kernel = make_kernel(workload, machine, "direct_bytes", config)
    kernel = kernel.suited(operands.constants.weight)
    actual, expected = computed(kernel, operands), exact_output(workload, operands)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "machine", [executed_on(V3), executed_on(V4)], ids=lambda machine: machine.mcpu
)
@pytest.mark.parametrize(
    "text", ["ic64ih14oc40kh3ph1", "mb2g2ic32ih9oc32kh3ph1", "ic24ih11oc24kh1"]
)
def test_weights_that_are_widened_once_are_exact(text: str, machine: Machine):
    workload = Conv2dWorkload.parse(f"{text}:u8s8s32u8:zpdata+bias")
    operands = random_integers(workload, 1)
    config = default_config("direct", workload, machine, oc=1, oh=1, ow=5, wide=1)
    actual, expected = (
        computed(make_kernel(workload, machine, "direct", config), operands),
        exact_output(workload, operands),
    )
    np.testing.assert_array_equal(actual, expected)
