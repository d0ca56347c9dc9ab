"""Reductions in parts, whose sums are in memory, against float64."""

from __future__ import annotations

import numpy as np

from tests.kernels import (
    alternating_machines,
    check_kernel,
    default_config,
    each_machine,
    run_by_threads,
)
from tests.strategies import conv_arrays
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine

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
