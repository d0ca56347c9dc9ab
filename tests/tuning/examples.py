"""Records that tests start from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.trace import trace_text
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.record import Machine
from tvmconv.machines.x86 import MACHINES
from tvmconv.records.lookup import Tuned, tuned
from tvmconv.records.record import Record, machine_facts
from tvmconv.tuning.journal import Trial
from tvmconv.tuning.results import MeasuredChoice

V4 = replace(MACHINES["x86-64-v4"], cores=1)
V3 = replace(MACHINES["x86-64-v3"], cores=1)
DENSE = Conv2dWorkload.parse("mb1ic64ih14oc64kh3ph1+bias+relu")
SMALL = Conv2dWorkload.parse("mb1ic32ih8oc32kh3ph1+bias+relu")
POINTWISE = Conv2dWorkload.parse("mb1ic32ih8oc32kh1+bias+relu")
DEPTHWISE = Conv2dWorkload.parse("g32mb1ic32ih8oc32kh3ph1+bias+clip(0,6)")


def default(workload: Conv2dWorkload, machine: Machine, algorithm: str = "direct") -> Config:
    return registry.default_config(algorithm, workload, machine)


def best_config(
    workload: Conv2dWorkload, machine: Machine, algorithm: str, logs: Sequence[Path]
) -> Tuned | None:
    """The fastest that a build is offered."""
    return min(tuned(workload, machine, algorithm, logs), key=lambda t: t.ratio, default=None)


def record(
    workload: Conv2dWorkload = DENSE,
    machine: Machine = V4,
    algorithm: str = "direct",
    knobs: dict[str, Any] | None = None,
    seconds: float = 1e-4,
    default_seconds: float = 2e-4,
) -> Record:
    start = default(workload, machine, algorithm)
    config = start.replace(**knobs) if knobs else start
    return Record(
        workload=workload,
        machine=machine_facts(machine),
        algorithm=algorithm,
        config=config,
        samples=(seconds, seconds * 1.01, seconds * 0.99),
        default_algorithm=algorithm,
        default_config=start,
        default_samples=(default_seconds, default_seconds * 1.02),
        verification={"reference": "float64", "error": 2e-7, "limit": 1e-5},
        device={"cpu": "Some Processor", "key": ""},
        versions={"tvmconv": "0.1.0"},
        date="2026-11-21T03:00:00+00:00",
        tuner={"space": "knobs", "seed": 0, "trials": 64},
    )


def _scheduled(workload: Conv2dWorkload) -> Any:
    """The direct expression with a tiled and vectorized reduction."""
    from tvmconv.tvm_api.s_tir import Schedule

    kernel = Kernel(workload, V3, "direct", default(workload, V3))
    schedule = Schedule(kernel.unscheduled())
    block = schedule.get_sblock("conv2d")
    loops = schedule.get_loops(block)
    _, columns = schedule.split(loops[3], [None, 4])
    schedule.reorder(*loops[5:], columns, loops[4])
    schedule.vectorize(loops[4])
    schedule.decompose_reduction(block, loops[5])
    return schedule


def traced(workload: Conv2dWorkload = POINTWISE, **changes: Any) -> Record:
    """A record of MetaSchedule's space."""
    from tvmconv.tvm_api.meta_schedule import trace_data

    found = record(workload, V3, **changes)
    config = found.config.with_trace(trace_text(trace_data(_scheduled(workload).trace)))
    return replace(found, config=config, tuner={"space": "auto", "seed": 0, "trials": 4})


def estimated(record: Record) -> Record:
    """The same record as if nothing had been measured."""
    return replace(record, device={"cpu": "estimate for some-core", "estimate": "by a method"})


class Instant:
    """A measurer that needs no time: the larger the knobs, the faster."""

    weights = times = "nowhere"
    tracker = None

    @staticmethod
    def seconds(config):
        return 1e-4 / (1 + sum(value for value in config.values() if type(value) is int))

    def trials(self, workload, machine, choices, best=math.inf, anchor=None):
        for algorithm, config in choices:
            yield Trial(algorithm, config, "timed", self.seconds(config))

    def interleaved(self, workload, machine, choices, final):
        return [MeasuredChoice(a, c, (self.seconds(c),) * 9, 1e-7, 1e-5) for a, c in choices]

    def identity(self):
        return {"cpu": "test"}
