"""Checks of knobs that many schedules share; each raises :class:`ConfigError`."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.costs.cuts import divisors


def check_minimum(workload: object, config: Config, minimum: int, *names: str) -> None:
    """Each of these knobs has at least this value."""
    for name in names:
        if config.int(name) < minimum:
            raise ConfigError(
                f"{name}={config.int(name)} of {workload} is too small. "
                f"Expected {minimum} or more. Increase {name}."
            )


def check_divides(workload: object, config: Config, name: str, count: int, what: str) -> None:
    """A knob divides this number of things, for example of panels."""
    value = config.int(name)
    if value < 1 or count % value:
        raise ConfigError(
            f"{name}={value} of {workload} does not divide its {count} {what}. "
            f"Expected one of {', '.join(map(str, divisors(count)))}. Change {name}."
        )
