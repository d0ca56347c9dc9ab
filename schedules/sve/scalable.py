"""The base class of the schedules of convolutions that have scalable code and NEON code."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.tvm_api.types import Schedule


class ScalableSchedule(ConvSchedule[Machine]):
    """Scalable code where the knob ``vectors`` is positive, else the schedule :attr:`FALLBACK`."""

    FALLBACK: ClassVar[ConvSchedule[Machine]]

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """See the base class."""
        chosen = self.check_scalable if config.int("vectors") else self.FALLBACK.check
        chosen(workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """See the base class."""
        chosen = self.apply_scalable if config.int("vectors") else self.FALLBACK.apply
        chosen(schedule, workload, machine, config)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """See the base class."""
        chosen = self.scalable_cost if config.int("vectors") else self.neon_cost
        return chosen(workload, machine, config)

    @abstractmethod
    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """:meth:`check` of scalable code."""

    @abstractmethod
    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """:meth:`apply` of scalable code."""

    @abstractmethod
    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """:meth:`explain_cost` of scalable code."""

    def neon_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """:meth:`explain_cost` of NEON code, by default as :attr:`FALLBACK` has it."""
        return self.FALLBACK.explain_cost(workload, machine, config)
