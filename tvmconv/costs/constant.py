"""Numbers of cost models, with unit and origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Fit:
    """The origin of constants: the cost model, the data, and the command that finds them again."""

    model: str
    data: str
    command: str


class Fitted(float):
    """A number of a cost model, with its unit, meaning and origin; arithmetic gives floats."""

    unit: str
    meaning: str
    fit: Fit

    def __new__(cls, value: float, unit: str, meaning: str, fit: Fit) -> Fitted:
        """Make the number."""
        found = super().__new__(cls, value)
        found.unit, found.meaning, found.fit = unit, meaning, fit
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.unit, self.meaning, self.fit


def fitted(model: str, data: str, command: str) -> Callable[[float, str, str], Fitted]:
    """Makes constants of one origin from value, unit and meaning; see :class:`Fit`."""
    return partial(Fitted, fit=Fit(model, data, command))


def constants_of(table: ModuleType) -> dict[str, Fitted]:
    """All constants of a table, by name."""
    return {name: value for name, value in vars(table).items() if isinstance(value, Fitted)}


@contextmanager
def replaced(table: ModuleType, values: Mapping[str, float]) -> Iterator[None]:
    """Other values for constants of a table, until the context ends; fits compare values.

    The models read each constant from the table when they need it.
    """
    known = constants_of(table)
    for name, value in values.items():
        old = known[name]
        setattr(table, name, Fitted(value, old.unit, old.meaning, old.fit))
    try:
        yield
    finally:
        for name in values:
            setattr(table, name, known[name])
