"""Reductions in parts, whose sums are in memory, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import (
    V4,
    allocated,
    alternating_machines,
    check_kernel,
    default_config,
    each_machine,
    run_by_threads,
)
from tests.strategies import conv_arrays
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.arm import MACHINES as ARM
from tvmconv.machines.record import Machine
from tvmconv.machines.sve import MACHINES as SVE

LAYERS = (
    "ic64ih1iw40oc64kh1kw9pl4pr4+bias+relu",
    "ic64ih1iw40oc32kh1kw20pl9pr10+bias",
    "mb2ic40ih1iw33oc40kh1kw5+add",
    "ic48ih9iw7oc40kh3ph1+bias+add+relu",
    "ic64ih6oc24kh1+bias",
    "ic32ih8iw9oc20kh3sh2ph1",
    "ic32id4ih5iw6oc20kd3kh3ph1pd1+bias",
)


@alternating_machines("text", LAYERS)
def test_results_are_right(text: str, machine: Machine):
    workload = Conv2dWorkload.parse(text)
    config = default_config("direct", workload, machine, oc=2, oh=1, ow=5, rows=0, kc=1)
    check_kernel(workload, machine, "direct", config)


@each_machine
def test_threads_do_not_change_a_bit(machine: Machine):
    workload, machine = Conv2dWorkload.parse(LAYERS[0]), machine.with_cores(2)
    config = default_config("direct", workload, machine, oc=1, oh=1, ow=6, rows=0, kc=2)
    kernel = make_kernel(workload, machine, "direct", config)
    results = run_by_threads(kernel, conv_arrays(workload))
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("text", LAYERS)
def test_the_workspace_holds_the_sums_of_each_thread(text: str):
    workload = Conv2dWorkload.parse(text)
    rows = min(2, workload.out_height)
    config = default_config("direct", workload, V4, oc=2, oh=rows, ow=5, rows=0, kc=1)
    kernel = make_kernel(workload, V4, "direct", config)
    assert allocated(kernel) == kernel.expression.workspace_bytes(workload, V4, config)


@pytest.mark.parametrize(
    ("text", "machine", "knobs"),
    [
        ("ic64ih8oc64kh3ph1:s8s8s32s8", V4, {}),
        ("ic64ih8oc64kh3ph1:bf16bf16f32bf16", V4, {}),
        ("g2ic64ih8oc64kh3ph1", V4, {}),
        ("ic64ih8oc64kh3ph1", ARM["neoverse-n1"], {}),
        ("ic64ih8oc64kh3ph1", SVE["neoverse-n2+sve"], {}),
        ("ic64ih8oc64kh3ph1", SVE["neoverse-n2+sve"], {"vectors": 1, "oh": 1, "ow": 1, "rows": 0}),
    ],
)
def test_layers_and_machines_without_parts_refuse_them(text: str, machine: Machine, knobs: dict):
    workload = Conv2dWorkload.parse(text)
    config = default_config("direct", workload, machine, kc=2, **knobs)
    with pytest.raises(ConfigError, match=r"kc=2 of .* on .*\. Expected one of 0\. Change kc\."):
        registry.check("direct", workload, machine, config)
