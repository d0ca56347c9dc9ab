"""The base class of all schedules of convolutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from tvmconv.core.config import Config, KnobValue
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.tvm_api.types import Schedule

DeviceT = TypeVar("DeviceT", bound=Device)


class ConvSchedule(ABC, Generic[DeviceT]):
    """How the loops of one algorithm are ordered, tiled and annotated on a kind of device.

    A file under ``schedules/`` defines one subclass and its instance ``SCHEDULE``, which
    :func:`tvmconv.kernels.registry.schedule` finds by that name. Each method gets a config with
    all knobs. A config that a method returns may omit knobs at their backward-compatible defaults.
    ``STEPS`` are knob values of the variants that an ablation compares, by default one without
    changes.
    """

    KNOBS: ClassVar[Knobs[Conv2dWorkload]]
    STEPS: ClassVar[tuple[dict[str, KnobValue], ...]] = ({},)

    def default_config(self, workload: Conv2dWorkload, machine: DeviceT) -> Config:
        """The analytic choice of knobs. A schedule defines this method or :meth:`offers`."""
        return min(
            self.offers(workload, machine),
            key=lambda config: self.predicted_cycles(workload, machine, config),
        )

    def offers(self, workload: Conv2dWorkload, machine: DeviceT) -> tuple[Config, ...]:
        """The configs that selection decides between.

        A schedule overrides this method if configs differ in error or memory, not only in speed.
        It then returns one good config for each such choice, for example each tile size.
        """
        return (self.default_config(workload, machine),)

    @abstractmethod
    def check(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> None:
        """Raise :class:`~tvmconv.core.errors.ConfigError` if a limit of the machine is broken."""

    @abstractmethod
    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> None:
        """Transform the ``s_tir.Schedule`` of the algorithm's function in place."""

    @abstractmethod
    def explain_cost(
        self, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> dict[str, float]:
        """Predicted cycles of one call on the machine's cores, by part.

        Parts that algorithms have in common have common names:

        - ``arithmetic``: FMAs, and what the core executes between them.
        - ``transforms`` and ``packing``: copies and transforms of operands.
        - ``weights``, ``activations`` and ``workspace``: waiting for these bytes.
        - ``memory``: waiting for any bytes, where the model does not separate them.
        - ``call``: the fixed cost of a call.
        """

    def predicted_cycles(self, workload: Conv2dWorkload, machine: DeviceT, config: Config) -> float:
        """Predicted cycles of one call on the machine's cores: the sum of all parts."""
        return sum(self.explain_cost(workload, machine, config).values())

    def blocks_resident(
        self, workload: Conv2dWorkload, machine: DeviceT, config: Config
    ) -> int | None:
        """Blocks that a GPU's multiprocessor shall hold; None leaves the number to nvcc."""
        return None
