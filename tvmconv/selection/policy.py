"""The limits and requests of a user for the selection of algorithms."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.core.arguments import shown, whole
from tvmconv.core.datatypes import REQUANTISE
from tvmconv.core.errors import ConfigError
from tvmconv.kernels import registry
from tvmconv.selection.overrides import Override, read_overrides

if TYPE_CHECKING:
    from tvmconv.core.decision import Candidate
    from tvmconv.core.workload import Conv2dWorkload
    from tvmconv.machines.device import Device

    Callback = Callable[[str, Conv2dWorkload, tuple[Candidate, ...]], Candidate | None]
    Overrides = str | os.PathLike[str] | Mapping[str, Any] | Callback

FLOAT32 = "float32"
# three times the estimated error of rounding both operands to 11 bits
LOW_PRECISION_BUDGET = 1e-3
# about the error of ncnn's Winograd; admits F(4, 3) with well chosen points
DEFAULT_ERROR_BUDGET = 5e-6


@dataclass(frozen=True)
class Policy:
    """The limits within which the fastest candidate of a layer is selected.

    Parameters
    ----------
    algorithms
        Names to select from.
    error_budget
        Largest estimate of max|error| / max|reference| against FP64 on normally distributed input.
        If no candidate meets it, the fastest candidate that sums plain products is selected
        (direct, for example). The reason reports this.
    memory_budget
        Maximum bytes of workspace of one call. Layers run one after the other and share their
        workspace, so the fastest combination is the fastest candidate of every layer within it.
    finite
        Whether inputs have only numbers of ordinary size. If False, NaN, infinities and numbers
        near the end of the float range may only affect the outputs that the convolution's sum
        defines. Algorithms that transform tiles are then excluded.
    overrides
        Selections by layer name, of which the first match applies. They ignore the error budget
        and the list of algorithms.
    logs
        Tuning logs in order of preference. Their records are candidates in addition to defaults.
    precision
        The precision to which operands may be rounded: ``"float32"``, ``"tf32"`` or ``"fp16"``.
    low_precision_budget
        The error budget of candidates with rounded operands.
    choose
        Called with the layer's name, its workload and the candidates within the list of algorithms
        and the memory budget. Returns one of them, or None to keep the selection.
    requantize
        How INT8 layers rescale their accumulators: ``"float"``, or ``"fixed"`` if possible; see
        :class:`~tvmconv.core.datatypes.Quantisation`.
    """

    algorithms: tuple[str, ...]
    error_budget: float = DEFAULT_ERROR_BUDGET
    memory_budget: int | None = None
    overrides: tuple[Override, ...] = ()
    choose: Callback | None = None
    logs: tuple[Path, ...] = ()
    finite: bool = True
    requantize: str = "float"
    precision: str = FLOAT32
    low_precision_budget: float = LOW_PRECISION_BUDGET

    def budget(self, candidate: Candidate) -> float:
        """The error budget of a candidate."""
        return self.low_precision_budget if candidate.precision else self.error_budget

    def keeps(self, candidate: Candidate) -> bool:
        """Whether a candidate is within its error budget."""
        return candidate.error <= self.budget(candidate)

    def to_json(self) -> dict[str, Any]:
        """The limits for a manifest, with the names of overrides and logs."""
        asked = {"precision": self.precision} if self.precision != FLOAT32 else {}
        return {
            **asked,
            "algorithms": list(self.algorithms),
            "error_budget": self.error_budget,
            "memory_budget": self.memory_budget,
            "finite": self.finite,
            "requantise": self.requantize,
            "overrides": {entry.pattern: entry.algorithm for entry in self.overrides},
            "callback": self.choose is not None,
            "logs": [path.name for path in self.logs],
        }


def make_policy(
    algorithms: Sequence[str] | None = None,
    error_budget: float | None = None,
    memory_budget: int | None = None,
    overrides: Overrides | None = None,
    logs: Sequence[Path] = (),
    finite: bool = True,
    requantize: str = "float",
    precision: str = FLOAT32,
) -> Policy:
    """A policy from a user's arguments; omitted arguments have their defaults.

    Raises ``ConfigError`` if an argument has a wrong type or value, or the overrides cannot be
    read.
    """
    if not isinstance(precision, str) or precision not in (FLOAT32, *PRECISIONS):
        raise ConfigError(
            f"precision={shown(precision)} is unknown; use {', '.join((FLOAT32, *PRECISIONS))}"
        )
    low = LOW_PRECISION_BUDGET if error_budget is None else _check_budget(error_budget)
    budget = DEFAULT_ERROR_BUDGET if error_budget is None else _check_budget(error_budget)
    if memory_budget is not None:
        memory_budget = whole(memory_budget, "memory_budget", 0, 1 << 62, ConfigError)
    if not isinstance(finite, bool):
        raise ConfigError(f"finite={shown(finite)} must be True or False")
    if requantize not in REQUANTISE[1:]:
        known = " or ".join(REQUANTISE[1:])
        raise ConfigError(f"requantize={shown(requantize)} must be {known}")
    policy = Policy(
        check_algorithms(algorithms),
        budget,
        memory_budget,
        logs=tuple(logs),
        finite=finite,
        requantize=requantize,
        precision=precision,
        low_precision_budget=low,
    )
    if callable(overrides):
        return replace(policy, choose=overrides)
    return replace(policy, overrides=() if overrides is None else read_overrides(overrides))


def _check_budget(value: Any) -> float:
    number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        budget = float(value) if number else -1.0
    except OverflowError:
        budget = inf
    if not isfinite(budget) or budget < 0:
        raise ConfigError(f"error_budget={shown(value)} must be a number of 0 or more, e.g. 5e-6")
    return budget


def check_algorithms(algorithms: Sequence[str] | None) -> tuple[str, ...]:
    """The allowed algorithm names, by default all of them; ``-name`` excludes one.

    Raises ``ConfigError`` if a name is not registered.
    """
    if algorithms is None:
        return tuple(registry.choices())
    listed = isinstance(algorithms, Sequence | set | frozenset)
    names = (algorithms,) if isinstance(algorithms, str) else tuple(algorithms) if listed else ()
    if not listed or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"algorithms={shown(algorithms)} must be a list of algorithms' names")
    # names that are never selected may be excluded
    asked = [name for name in names if name.removeprefix("-") not in registry.REPRODUCTIONS]
    asked += [name for name in names if name in registry.REPRODUCTIONS]
    if problems := [p for name in asked if (p := registry.unknown(name.removeprefix("-")))]:
        known = ", ".join(registry.choices())
        raise ConfigError(f"algorithms={list(names)}: {'; '.join(problems)}; choose from {known}")
    chosen = [name for name in names if not name.startswith("-")] or list(registry.choices())
    return tuple(name for name in chosen if f"-{name}" not in names)


def check_precision(policy: Policy, machine: Device) -> None:
    """Raise :class:`ConfigError` for a precision that a target does not support."""
    if policy.precision == FLOAT32 or policy.precision in registry.precisions(machine):
        return
    raise ConfigError(
        f"precision={policy.precision!r} requires a CUDA target, got {machine.name}. Leave it out, "
        "or build for a target such as cuda:sm_90."
    )
