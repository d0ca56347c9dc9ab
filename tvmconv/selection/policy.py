"""What a user allows and asks for when algorithms are chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from tvmconv import registry
from tvmconv.errors import ConfigError

if TYPE_CHECKING:
    from tvmconv.decision import Candidate
    from tvmconv.selection.overrides import Override
    from tvmconv.workload import Conv2dWorkload

    Callback = Callable[[str, Conv2dWorkload, tuple[Candidate, ...]], Candidate | None]

# about what ncnn's Winograd shows; admits F(4, 3) with well chosen points
DEFAULT_ERROR_BUDGET = 5e-6


@dataclass(frozen=True)
class Policy:
    """The limits within which the fastest candidate of a layer is taken.

    Parameters
    ----------
    algorithms
        Names to choose from.
    error_budget
        Largest estimate of max|error| / max|reference| against float64 on normally distributed
        input. Where no candidate keeps it, the most accurate is taken, and its reason says so.
    memory_budget
        Most bytes of workspace of one call. Layers run one after the other and share their
        workspace, so the fastest combination is the fastest candidate of every layer within it.
    overrides
        Choices by layer name, from a file.
    choose
        Called with the layer's name, its workload and the allowed candidates; returns one of
        them, or None to leave the choice alone.
    """

    algorithms: tuple[str, ...]
    error_budget: float = DEFAULT_ERROR_BUDGET
    memory_budget: int | None = None
    overrides: tuple[Override, ...] = ()
    choose: Callback | None = None


def make_policy(
    algorithms: Sequence[str] | None = None,
    error_budget: float | None = None,
    memory_budget: int | None = None,
    overrides: tuple[Override, ...] = (),
    choose: Callback | None = None,
) -> Policy:
    """A policy from a user's arguments; everything left out has its default.

    Raises
    ------
    ConfigError
        If a name is not registered, or a budget is not a non-negative number.
    """
    budget = DEFAULT_ERROR_BUDGET if error_budget is None else float(error_budget)
    if not isfinite(budget) or budget < 0:
        raise ConfigError(f"error_budget={error_budget} must be a number of 0 or more, e.g. 5e-6")
    if memory_budget is not None and memory_budget < 0:
        raise ConfigError(f"memory_budget={memory_budget} must be 0 or more bytes")
    return Policy(check_algorithms(algorithms), budget, memory_budget, overrides, choose)


def check_algorithms(algorithms: Sequence[str] | None) -> tuple[str, ...]:
    """The allowed algorithm names, by default all of them; ``-name`` leaves one out.

    Raises
    ------
    ConfigError
        If a name is not registered.
    """
    if algorithms is None:
        return tuple(registry.ALGORITHMS)
    names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms)
    if unknown := [name for name in names if name.removeprefix("-") not in registry.ALGORITHMS]:
        known = ", ".join(registry.ALGORITHMS)
        raise ConfigError(f"algorithms={unknown} are unknown; choose from {known}")
    chosen = [name for name in names if not name.startswith("-")] or list(registry.ALGORITHMS)
    return tuple(name for name in chosen if f"-{name}" not in names)
