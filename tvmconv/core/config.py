"""Knob values of one schedule, and the trace that replaces its loops, as plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .errors import ConfigError

KnobValue = int | str | bool

# the key of a trace among the knobs in JSON
_TRACE = "trace"


@dataclass(frozen=True)
class Config(Mapping[str, KnobValue]):
    """Immutable, hashable mapping of knob name to value; JSON in and out.

    The knobs decide the tensor expression and its schedule. A ``trace`` replaces the schedule: it
    is the JSON text of schedule primitives, see :mod:`tvmconv.core.trace`. It belongs to these
    knobs, so a config with other knobs has none.
    """

    items_: tuple[tuple[str, KnobValue], ...]
    trace: str = ""

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
        if not knobs:
            return self
        if unknown := set(knobs) - set(self):
            raise ConfigError(
                f"unknown knob(s) {', '.join(sorted(unknown))}; this schedule has {', '.join(self)}"
            )
        return Config.of(**{**dict(self), **knobs})

    def with_trace(self, trace: str) -> Config:
        """The same knobs, scheduled by a trace; an empty one is the schedule's own loops."""
        return replace(self, trace=trace)

    def to_json(self) -> dict[str, KnobValue]:
        """Plain data."""
        return {**self, **({_TRACE: self.trace} if self.trace else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Inverse of :meth:`to_json`; values must be integers, strings or booleans."""
        for name, value in data.items():
            if not isinstance(name, str) or not isinstance(value, int | str):
                raise ConfigError(f"knob {name!r}={value!r} must be an integer, string or boolean")
        knobs = {name: value for name, value in data.items() if name != _TRACE}
        return cls.of(**knobs).with_trace(str(data.get(_TRACE, "")))

    def __str__(self) -> str:
        knobs = " ".join(f"{k}={v}" for k, v in self.items_)
        if not self.trace:
            return knobs
        return f"{knobs} trace={hashlib.sha256(self.trace.encode()).hexdigest()[:8]}".lstrip()
