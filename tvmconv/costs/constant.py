"""What a constant of a cost model is: a number with its unit and its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Fit:
    """Where constants come from.

    Parameters
    ----------
    model
        The cost model that the constants belong to.
    data
        What the values were fitted on, counted in or estimated from.
    command
        The command that finds the values again.
    """

    model: str
    data: str
    command: str


class Constant(float):
    """A number of a cost model; arithmetic gives plain numbers.

    Parameters
    ----------
    value
        The number.
    unit
        Its unit.
    meaning
        What it is.
    fit
        Where the value comes from.
    """

    unit: str
    meaning: str
    fit: Fit

    def __new__(cls, value: float, unit: str, meaning: str, fit: Fit) -> Constant:
        """Make the number."""
        found = super().__new__(cls, value)
        found.unit, found.meaning, found.fit = unit, meaning, fit
        return found

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.unit, self.meaning, self.fit


def constants_of(table: ModuleType) -> dict[str, Constant]:
    """All constants of a wing's table, by name."""
    return {name: value for name, value in vars(table).items() if isinstance(value, Constant)}


@contextmanager
def replaced(table: ModuleType, values: Mapping[str, float]) -> Iterator[None]:
    """Other values for constants of a table, until the context ends.

    Fits compare values so. The models read each constant from the table when they need it.
    """
    known = constants_of(table)
    old = {name: known[name] for name in values}
    for name, value in values.items():
        constant = known[name]
        new = Constant(value, constant.unit, constant.meaning, constant.fit)
        setattr(table, name, new)
    try:
        yield
    finally:
        for name, constant in old.items():
            setattr(table, name, constant)
