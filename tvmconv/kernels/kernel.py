"""One scheduled convolution function, which graphs call, benchmarks time and tests check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvmconv.algorithms.base import DeviceAlgorithm, FloatArray
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.machines.device import Device
from tvmconv.tir.annotations import RESIDENT
from tvmconv.tvm_api.types import PrimFunc


@dataclass(frozen=True)
class Kernel:
    """A workload with the algorithm and knob values that compute it on one machine."""

    workload: Conv2dWorkload
    machine: Device
    algorithm: str
    config: Config

    @property
    def expression(self) -> DeviceAlgorithm[Any]:
        """The algorithm object."""
        return registry.algorithm(self.algorithm, self.machine.kind)

    def suited(self, weight: FloatArray) -> Kernel:
        """The kernel that these weights need; mostly this one."""
        config = self.expression.suited(weight, self.workload, self.machine, self.config)
        return replace(self, config=config)

    def pack_weight(self, weight: FloatArray) -> FloatArray:
        """Pack an OIHW weight for this kernel."""
        return self.expression.pack_weight(weight, self.workload, self.machine, self.config)

    def unscheduled(self, symbol: str = "main") -> PrimFunc:
        """The ``tirx.PrimFunc`` of the plain tensor expression."""
        from tvmconv.tvm_api import te

        tensors = self.expression.compute(self.workload, self.machine, self.config)
        return te.create_prim_func(tensors).with_attr("global_symbol", symbol)

    @property
    def predicted_cycles(self) -> float:
        """Cycles of one call, by the schedule's cost model."""
        found = registry.required(self.algorithm, self.workload, self.machine)
        return found.predicted_cycles(self.workload, self.machine, self.config)

    @compiler_lock()
    def prim_func(self, symbol: str = "main") -> PrimFunc:
        """The scheduled ``tirx.PrimFunc``, marked so that no later pass schedules it again.

        A trace in the config replaces the algorithm's own schedule.
        It is in block form. The passes of :mod:`tvmconv.tir.pipeline` apply the schedule's
        annotations.
        """
        from tvmconv.kernels.replay import replayed
        from tvmconv.kernels.rules import SCHEDULED
        from tvmconv.tvm_api.s_tir import Schedule

        found = registry.required(self.algorithm, self.workload, self.machine)
        registry.check(self.algorithm, self.workload, self.machine, self.config)
        if self.config.trace:
            func = replayed(self.unscheduled(symbol), self.config.trace)
            return func.with_attr(SCHEDULED, True)
        schedule = Schedule(self.unscheduled())
        found.apply(schedule, self.workload, self.machine, self.config)
        func = schedule.mod["main"].with_attr("global_symbol", symbol)
        blocks = found.blocks_resident(self.workload, self.machine, self.config)
        if blocks is not None:
            func = func.with_attr(RESIDENT, blocks)
        return func.with_attr(SCHEDULED, True)


def make_kernel(
    workload: Conv2dWorkload,
    machine: Device,
    algorithm: str,
    config: Config | None = None,
) -> Kernel:
    """A kernel with the given knobs or the schedule's default; missing knobs have their defaults.

    Raises :class:`ConfigError` if the algorithm cannot compute the workload, or if a knob exceeds a
    limit of the machine.
    """
    if reason := registry.unavailable(algorithm, workload, machine):
        raise ConfigError(f"{algorithm} cannot compute {workload}: {reason}")
    if config is None:
        config = registry.default_config(algorithm, workload, machine)
    config = registry.knobs(algorithm, machine).complete(config)
    registry.check(algorithm, workload, machine, config)
    return Kernel(workload, machine, algorithm, config)
