"""Seconds from cycles, for readers: choices are made in cycles."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor
from tvmconv.machines.saved import saved

_ASSUMED_HERTZ = 2.5e9


@dataclass(frozen=True)
class Clock:
    """Cycles per second, which a report shows with predicted times."""

    hertz: float
    measured: bool

    def seconds(self, cycles: float) -> float:
        """The time of a number of cycles."""
        return cycles / self.hertz

    def __str__(self) -> str:
        return f"{self.hertz / 1e9:.2f} GHz, {'measured' if self.measured else 'assumed'}"


def clock_of(device: Device) -> Clock:
    """The clock that ``tvmconv cpu --measure`` found with these rates, or a nominal one.

    For a GPU, the clock of the machine model.
    """
    if isinstance(device, CudaMachine):
        return Clock(device.clock_hertz, measured=False)
    machine = processor(device)
    found = saved(machine)
    if found is None or found.rates != machine.rates:
        return Clock(_ASSUMED_HERTZ, measured=False)
    return Clock(found.hertz, measured=True)
