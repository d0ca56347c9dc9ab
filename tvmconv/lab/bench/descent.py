"""Fitting positive numbers by descent along one of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

# factors of a move, large ones first
_STEPS = (2.0, 1.4, 1.15, 1.05, 1.02)


def descend(
    start: Mapping[str, float],
    loss: Callable[[Mapping[str, float]], float],
    allowed: Callable[[str, float], bool],
) -> dict[str, float]:
    """The values with the smallest loss that moves of one value at a time reach.

    ``allowed`` says whether a name may have a value.
    """
    values = dict(start)
    smallest = loss(values)
    for step in _STEPS:
        moved = True
        while moved:
            moved = False
            for name in values:
                for factor in (step, 1.0 / step):
                    tried = {**values, name: values[name] * factor}
                    if not allowed(name, tried[name]):
                        continue
                    found = loss(tried)
                    if found < smallest - 1e-9:
                        values, smallest, moved = tried, found, True
    return values


def huber(error: float, far: float) -> float:
    """A loss that is quadratic near zero and linear beyond ``far``."""
    near = min(abs(error), far)
    return near * near / 2 + far * (abs(error) - near)
