"""The result does not depend on the order of the threads' tasks.

On few threads a race rarely shows: two tasks that write the same rows do so one after the other.
Here the tasks run backwards, so that what a task should not have written stays. Tasks that write
the same values to one place are not found.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

from tests.kernels import V3, V4, each_machine, errors, tasks
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel, make_kernel
from tvmconv.machines.record import Machine
from tvmconv.records.space import make_space
from tvmconv.tir.general.rewrite import rebuilt, substitute, transformed
from tvmconv.tir.pipeline import loop_passes

_LAYERS = (  # odd sizes, so that the last tiles and bands are cut
    "mb1ic17ih11iw7oc40kh3ph1+bias+add+relu",
    "mb2ic8ih9iw10oc17kh3dh1+bias+relu",
    "mb1ic33ih14iw7oc48kh1sh2",
    "mb1ic9ih22iw10oc24kh5sh2",
    "mb1ic1ih15iw17oc40kh3:nchw+bias",
    "mb1ic3ih23iw9oc33kh5sh2ph2:nchw+bias+relu",
    "g16mb1ic16ih21iw15oc16kh3dh1",
    "g64mb1ic64ih12iw16oc64kh3ph1+bias",
    "g16mb2ic16ih1iw15oc16kh1",
    "mb2ic3ih9iw12oc17kh3ph1:nchw",
)


class Backwards(Kernel):
    """A kernel whose parallel tasks run one after another, the last first."""

    def prim_func(self, *arguments: Any, **options: Any) -> Any:
        """The scheduled function with its parallel loops turned round."""
        func = transformed(super().prim_func(*arguments, **options), *loop_passes())
        return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _turned)))


def _turned(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    assert int(loop.min) == 0
    # extent - 1 - var, written so that no pass takes the index apart again
    last = loop.extent + tirx.bitwise_not(loop.loop_var)
    body = substitute(loop.body, {loop.loop_var: last})
    return rebuilt(loop, kind=tirx.ForKind.SERIAL, body=body)


def check(workload: Conv2dWorkload, machine: Machine, algorithm: str, config: Config) -> None:
    kernel = make_kernel(workload, machine, algorithm, config)
    difference, expected = errors(Backwards(workload, machine, algorithm, config), draft=True)
    limit = max(1e-5, 4 * kernel.expression.error_estimate(workload, machine, config))
    error = np.abs(difference).max() / np.abs(expected).max()
    assert error <= limit, (algorithm, workload, config, error)


@each_machine
# strassen is for Arm alone, two are for integers
@pytest.mark.parametrize(
    "algorithm",
    [n for n in registry.names() if n not in ("strassen", "direct_bytes", "direct_tiles")],
)
@pytest.mark.parametrize("samples", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_defaults_and_sampled_configs(algorithm: str, machine: Machine, samples: int) -> None:
    generator = random.Random(f"{algorithm} {machine.isa}")
    parallel, checked = replace(machine, cores=4), 0
    if samples == 1 and algorithm == "winograd_eta":
        samples = 0  # its tiles compile for seconds
    # by default one machine has the even layers and the other one the odd ones
    for layer in _LAYERS if samples > 1 else _LAYERS[machine is V4 :: 2]:
        workload = Conv2dWorkload.parse(layer)
        try:
            space = make_space(workload, parallel, algorithm)
        except ConfigError:
            continue
        drawn = (space.sample(generator) for _ in range(samples))
        for config in dict.fromkeys((space.starts[0], *filter(None, drawn))):
            check(workload, parallel, algorithm, config)
            checked += 1
    assert checked


@pytest.mark.parametrize(
    ("algorithm", "layer", "knobs"),
    [
        ("im2win", "mb1ic8ih22iw16oc8kh7sh2", {"oc": 1, "oh": 3, "ow": 2, "rows": 4}),
        ("depthwise", "g16mb1ic16ih12iw15oc16kh1", {"bands": 4, "tile_h": 2, "tile_w": 4}),
        ("depthwise", "g16mb2ic16ih7iw15oc16kh1", {"bands": 6, "tile_h": 4, "tile_w": 3}),
        (
            "direct_first",
            "mb1ic1ih15iw17oc3kh3:nchw",
            {"bands": 6, "oc": 1, "tile_h": 2, "tile_w": 6},
        ),
    ],
)
def test_tiles_do_not_reach_into_the_next_task(
    algorithm: str, layer: str, knobs: dict[str, int]
) -> None:
    workload, machine = Conv2dWorkload.parse(layer), replace(V3, cores=4)
    kernel = make_kernel(workload, machine, algorithm, Config.of(**knobs))
    assert max(tasks(kernel)) > 1
    check(workload, machine, algorithm, Config.of(**knobs))
