"""The declaration of a schedule's knobs: defaults, tuner, checks, explain and docs all read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .config import Config, KnobValue
from .errors import ConfigError

if TYPE_CHECKING:
    from tvmconv.machines.device import Device

Workload = TypeVar("Workload")


@dataclass(frozen=True)
class Knob(Generic[Workload]):
    """One choice that a schedule leaves open.

    ``doc`` is the meaning as a clause, with the unit. ``values`` are worth trying for a workload on
    a machine. The schedule's ``check`` decides whether other integers are legal. ``neutral`` is the
    backward-compatible default. Older records without the knob have this value, and defaults may
    omit it. It is None for knobs that every config has. A knob is ``closed`` if no other values
    exist, as for strings and booleans.
    """

    name: str
    doc: str
    values: Callable[[Workload, Any], Iterable[KnobValue]]
    neutral: KnobValue | None = None
    closed: bool = False

    def check(self, value: KnobValue, workload: Workload, machine: Device) -> None:
        """Raise :class:`ConfigError` for a value of another type, or that is not listed."""
        if not self.closed:
            if type(value) is not int:
                raise ConfigError(f"{self.name}={value!r} of {workload} must be an integer")
            return
        listed = tuple(self.values(workload, machine))
        if not any(type(value) is type(known) and value == known for known in listed):
            shown = ", ".join(str(known) for known in listed)
            raise ConfigError(f"{self.name}={value!r} of {workload} must be one of {shown}")


@dataclass(frozen=True)
class Knobs(Generic[Workload]):
    """All knobs of a schedule.

    ``knobs`` are in the order in which they are shown. ``retired`` are removed knobs of older
    records, with the value that the schedule still implements.
    """

    knobs: tuple[Knob[Workload], ...]
    retired: Mapping[str, KnobValue] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Knob[Workload]]:
        return iter(self.knobs)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(knob.name for knob in self.knobs)

    def values(self, workload: Workload, machine: Device) -> dict[str, tuple[KnobValue, ...]]:
        """Every knob with the values worth trying."""
        return {knob.name: tuple(knob.values(workload, machine)) for knob in self.knobs}

    def complete(self, config: Mapping[str, KnobValue]) -> Config:
        """A config of an earlier version, or without some defaults, as a complete config.

        Raises ``ConfigError`` if a knob is unknown, or missing without a default.
        """
        kept = {k: v for k, v in config.items() if k not in self.retired or v != self.retired[k]}
        neutral = {knob.name: knob.neutral for knob in self.knobs if knob.neutral is not None}
        complete = Config.of(**{**neutral, **kept})
        self._require(complete)
        return complete.with_trace(config.trace if isinstance(config, Config) else "")

    def check(self, workload: Workload, machine: Device, config: Config) -> None:
        """Raise :class:`ConfigError` for an unknown or missing knob, or a value that is none."""
        self._require(config)
        for knob in self.knobs:
            knob.check(config[knob.name], workload, machine)

    def _require(self, config: Config) -> None:
        """Exactly the declared names."""
        wrong = [f"{name} is none of them" for name in config if name not in self.names]
        wrong += [f"{name} is missing" for name in self.names if name not in config]
        if wrong:
            raise ConfigError(f"the knobs are {', '.join(self.names)}; {', '.join(wrong)}")
