"""What the command line lets a build choose from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvmconv.cli.sizes import byte_count, fold_bytes


@dataclass(frozen=True)
class Choices:
    """What the command line allows; arguments of ``build`` that a finished model cannot take."""

    algorithms: tuple[str, ...] | None = None
    memory_budget: int | None = None
    error_budget: float | None = None
    overrides: Path | None = None
    log: str | None = None
    finite: bool = True
    fold_budget: int | None = None
    requantise: str = "float"
    precision: str = "float32"

    @property
    def given(self) -> bool:
        """Whether anything differs from the defaults."""
        return self != Choices()


def parse_choices(
    algorithms: str | None,
    no_winograd: bool,
    memory_budget: str | None,
    error_budget: float | None,
    override: Path | None,
    log: str | None = None,
    finite: bool = True,
    fold_budget: str | None = None,
    requantise: str = "float",
    precision: str = "float32",
) -> Choices:
    """The selection options as arguments of ``build``.

    Raises
    ------
    InputError
        If a budget in bytes is no size.
    """
    names = [name.strip() for name in algorithms.split(",")] if algorithms else []
    names += ["-winograd"] if no_winograd else []
    return Choices(
        tuple(names) or None,
        byte_count(memory_budget, "--memory-budget") if memory_budget is not None else None,
        error_budget,
        override,
        log,
        finite,
        fold_bytes(fold_budget),
        requantise,
        precision,
    )
