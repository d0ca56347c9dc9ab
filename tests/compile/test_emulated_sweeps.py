"""Suites, random layers and whole networks on emulated processors; long, hence slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tvmconv
from examples.networks import mobilenet, resnet
from tests.emulating import (
    CALL,
    HOSTILE,
    Core,
    each_core,
    needs_arm,
    relative_errors,
    run_model,
)
from tests.networks.compare import TOLERANCE, onnxruntime_outputs, random_inputs
from tests.random_layers import random_layers
from tests.random_network import random_network
from tests.usual_layers import KINDS, usual_layers
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.record import Machine
from tvmconv.measuring import suites
from tvmconv.selection.select import select
from tvmconv.tuning.candidate import error_limit

pytestmark = [pytest.mark.slow, needs_arm, pytest.mark.timeout(7200)]
_RANDOM_LAYERS = 500
_AT_A_TIME = 50
_EACH_USUAL = 4
_RANDOM_NETWORKS, _NETWORKS_AT_A_TIME = 60, 10
_SUITES = {
    name: [layer.workload for layer in suites.load(name) if layer.workload.types == FLOAT32]
    for name in suites.names()
    if name not in ("sgemm", "integer_products", "poolings")
}


def check(kernels: list[Kernel], core: Core, folder: Path) -> None:
    """All errors are within a kernel's bounds; lists all others."""
    wrong = []
    for processor, errors in relative_errors(kernels, core, folder):
        found = [
            f"{processor}: {kernel.algorithm} {kernel.workload} {kernel.config}: {error:.3g}"
            for kernel, error in zip(kernels, errors, strict=True)
            if not error <= error_limit(kernel)
        ]
        right = len(kernels) - len(found)
        print(f"{processor}: {right} right, {len(found)} wrong, worst {max(errors):.3g}")
        wrong += found
    assert not wrong, "\n".join(wrong)


def every_algorithm(workload: Conv2dWorkload, machine: Machine) -> list[Kernel]:
    """The default kernel of each algorithm that accepts a layer, and scalable kernels."""
    found = [
        make_kernel(workload, machine, name)
        for name in registry.names()
        if registry.algorithm(name).unsupported(workload, machine) is None
    ]
    return [form for kernel in found for form in (kernel, *scalable_forms(kernel))]


def scalable_forms(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with the widest tile of scalable vectors, and one of another width."""
    values = registry.knob_values(kernel.algorithm, kernel.workload, kernel.machine)
    widths = [value for value in values.get("vectors", ()) if value]
    # NEON's knobs of the pixels or tiles that vectors take the place of
    fixed = {knob: 1 for knob in ("oh", "ow", "rt", "tile_w") if knob in kernel.config}
    made = 0
    for vectors in reversed(widths):
        config = kernel.config.replace(**fixed, vectors=vectors)
        if made == 2 or config == kernel.config:
            continue
        try:
            yield make_kernel(kernel.workload, kernel.machine, kernel.algorithm, config)
        except ConfigError:
            # more than the register file holds
            continue
        made += 1


@each_core
@pytest.mark.parametrize("part", range(_RANDOM_LAYERS // _AT_A_TIME))
def test_random_layers(core: Core, part: int, tmp_path: Path) -> None:
    layers = random_layers(_RANDOM_LAYERS)[part * _AT_A_TIME :][:_AT_A_TIME]
    assert len(layers) == _AT_A_TIME
    kernels = [kernel for layer in layers for kernel in every_algorithm(layer, core.machine)]
    check(kernels, core, tmp_path)


@each_core
@pytest.mark.parametrize("part", range(_EACH_USUAL))
def test_usual_layers(core: Core, part: int, tmp_path: Path) -> None:
    layers = usual_layers(_EACH_USUAL)[part * len(KINDS) :][: len(KINDS)]
    kernels = [kernel for layer in layers for kernel in every_algorithm(layer, core.machine)]
    check(kernels, core, tmp_path)


@each_core
@pytest.mark.parametrize("suite", [name for name, layers in _SUITES.items() if layers])
def test_layers_of_a_suite(core: Core, suite: str, tmp_path: Path) -> None:
    """As a network would compute them; layers of 8 bits have sweeps of their own."""
    kernels = []
    for workload in _SUITES[suite]:
        chosen = select(workload, core.machine).chosen
        kernels.append(make_kernel(workload, core.machine, chosen.algorithm, chosen.config))
    check(kernels, core, tmp_path)


@each_core
@pytest.mark.parametrize("network", [resnet.resnet18, mobilenet.mobilenet_v2])
def test_networks(core: Core, network, tmp_path: Path) -> None:
    model = network()
    inputs = random_inputs(model)
    built = tvmconv.build(model, core.machine, log="none")
    references = onnxruntime_outputs(model, inputs).values()
    for processor, options in core.processors.items():
        results = run_model(built, tmp_path, *inputs.values(), options=options)
        for actual, expected in zip(results, references, strict=True):
            error = np.abs(actual - expected).max() / np.abs(expected).max()
            print(f"{processor}: {model.graph.name}: {error:.3g}")
            assert error <= TOLERANCE


@each_core
@pytest.mark.parametrize("part", range(_RANDOM_NETWORKS // _NETWORKS_AT_A_TIME))
def test_random_networks(core: Core, part: int, tmp_path: Path) -> None:
    """Right also where memory and registers hold garbage, and tasks come in any order.

    Every caller runs on every processor: the one of garbage checks that no task reads or writes
    what it should not, with 64, 2, 5 and 1 threads.
    """
    first, worst, wrong = part * _NETWORKS_AT_A_TIME, 0.0, []
    for seed in range(first, first + _NETWORKS_AT_A_TIME):
        model = random_network(seed)
        inputs = random_inputs(model, seed)
        built = tvmconv.build(model, core.machine, log="none")
        references = list(onnxruntime_outputs(model, inputs).values())
        for processor, options in core.processors.items():
            for caller in (CALL, HOSTILE):
                found = run_model(built, tmp_path, *inputs.values(), options=options, caller=caller)
                errors = [
                    float(np.abs(actual - expected).max() / np.abs(expected).max())
                    for actual, expected in zip(found, references, strict=True)
                ]
                worst = max(worst, *errors)
                if not max(errors) <= TOLERANCE:
                    wrong.append(f"network {seed}, {processor}, {caller.stem}: {max(errors):.3g}")
    print(f"networks {first} to {seed}: {len(wrong)} wrong, worst {worst:.3g}")
    assert not wrong, "\n".join(wrong)
