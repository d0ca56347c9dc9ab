"""Knob values of one schedule, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError

KnobValue = int | str | bool


@dataclass(frozen=True)
class Config(Mapping[str, KnobValue]):
    """Immutable, hashable mapping of knob name to value; JSON in and out."""

    items_: tuple[tuple[str, KnobValue], ...]

    @classmethod
    def of(cls, **knobs: KnobValue) -> Config:
        """Build from keyword arguments."""
        return cls(tuple(sorted(knobs.items())))

    def __getitem__(self, name: str) -> KnobValue:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def int(self, name: str) -> int:
        """The value of an integer knob."""
        value = self[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"knob {name}={value!r} must be an integer")
        return value

    def replace(self, **knobs: KnobValue) -> Config:
        """A copy with some knobs changed; unknown names are an error."""
        if unknown := set(knobs) - set(self):
            raise ConfigError(
                f"unknown knob(s) {', '.join(sorted(unknown))}; this schedule has {', '.join(self)}"
            )
        return Config.of(**{**dict(self), **knobs})

    def to_json(self) -> dict[str, KnobValue]:
        """Plain data."""
        return dict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Inverse of :meth:`to_json`; values must be integers, strings or booleans."""
        for name, value in data.items():
            if not isinstance(name, str) or not isinstance(value, int | str):
                raise ConfigError(f"knob {name!r}={value!r} must be an integer, string or boolean")
        return cls.of(**data)

    def __str__(self) -> str:
        return " ".join(f"{k}={v}" for k, v in self.items_)
