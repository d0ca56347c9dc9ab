"""GEMM: the scheduled function that computes a matrix product.

A GEMM is not a convolution: it is not a layer of a network, and its algorithm is fixed. It has the
register tile and the block model of the im2col convolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmconv.core.config import Config
from tvmconv.core.datatypes import refusal
from tvmconv.core.errors import ConfigError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.kernels.families import schedules_of
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import PrimFunc

if TYPE_CHECKING:
    from tvmconv.algorithms.base import FloatArray


@dataclass(frozen=True)
class GemmKernel:
    """A matrix product with the parameter values that compute it on one machine.

    Its arguments are A, B (packed if the parameter ``prepacked`` is set), C if ``beta`` is not 0,
    and the result. The result must not share memory with them.
    """

    workload: GemmWorkload
    machine: Machine
    config: Config

    def unscheduled(self) -> PrimFunc:
        """The ``tirx.PrimFunc`` of the plain tensor expression."""
        from tvmconv.algorithms.gemm.gemm import compute
        from tvmconv.tvm_api import te

        return te.create_prim_func(compute(self.workload, self.machine, self.config))

    @compiler_lock()
    def prim_func(self, symbol: str = "main") -> PrimFunc:
        """The scheduled ``tirx.PrimFunc``."""
        from tvmconv.kernels.rules import SCHEDULED
        from tvmconv.tvm_api.s_tir import Schedule

        schedule = Schedule(self.unscheduled())
        _schedules(self.machine).apply(schedule, self.workload, self.machine, self.config)
        func = schedule.mod["main"].with_attr("global_symbol", symbol)
        return func.with_attr(SCHEDULED, True)

    def pack_b(self, matrix: FloatArray) -> FloatArray:
        """B in the panels that a ``prepacked`` kernel reads; see the expression for their form."""
        from tvmconv.algorithms.gemm.gemm import pack_b

        return pack_b(matrix, self.config, self.workload, self.machine)


def make_gemm(
    workload: GemmWorkload, machine: Machine, config: Config | None = None, **knobs: int | str
) -> GemmKernel:
    """A kernel with the given config or the schedule's default, changed by ``knobs``.

    Raises :class:`ConfigError` if a knob is unknown or exceeds a limit of the machine, or
    if the GEMM lacks the workload's types.
    """
    from tvmconv.algorithms.gemm.gemm import TYPES

    if reason := refusal(workload.types, TYPES):
        raise ConfigError(f"gemm cannot compute {workload}: {reason}")
    if workload.types.is_integer and (workload.alpha, workload.beta) != (1, 0):
        raise ConfigError(
            f"gemm cannot compute {workload}: alpha={workload.alpha:g} beta={workload.beta:g}. "
            "Expected alpha 1 and beta 0 for integers. Leave both out."
        )
    schedules = _schedules(machine)
    prepacked = bool(knobs.get("prepacked"))
    usual = config or schedules.default_config(workload, machine, prepacked)
    config = schedules.KNOBS.complete(usual)
    config = config.replace(**knobs)
    schedules.KNOBS.check(workload, machine, config)
    schedules.check(workload, machine, config)
    return GemmKernel(workload, machine, config)


def _schedules(machine: Machine) -> Any:
    return schedules_of(machine, "gemm")
