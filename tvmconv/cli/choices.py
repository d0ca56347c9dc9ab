"""Choices of a build: options of all subcommands that build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tvmconv.cli import options
from tvmconv.cli.command import with_group
from tvmconv.cli.values import byte_count, fold_bytes, parse_outputs


@dataclass(frozen=True)
class Choices:
    """Arguments of ``build`` from the command line; a finished model accepts none of them."""

    algorithms: tuple[str, ...] | None = None
    memory_budget: int | None = None
    error_budget: float | None = None
    overrides: Path | None = None
    log: str | None = None
    finite: bool = True
    fold_budget: int | None = None
    requantize: str = "float"
    precision: str = "float32"
    cc: str = ""
    outputs: tuple[str, ...] | None = None
    batch: str | None = None

    @property
    def given(self) -> bool:
        """Whether anything differs from the defaults."""
        return self != DEFAULT


DEFAULT = Choices()


def parse_choices(
    algorithms: options.Algorithms = None,
    no_winograd: options.NoWinograd = False,
    memory_budget: options.MemoryBudget = None,
    fold_budget: options.FoldBudget = None,
    error_budget: options.ErrorBudget = None,
    finite: options.Finite = True,
    requantize: options.Requantize = "float",
    precision: options.Precision = "float32",
    override: options.OverrideFile = None,
    tuning_log: options.TuningLog = None,
    cc: options.Compiler = "",
    outputs: options.Outputs = None,
    batch: options.Batch = None,
) -> Choices:
    """The options as arguments of ``build``; its parameters are options."""
    names = [name.strip() for name in algorithms.split(",")] if algorithms else []
    names += ["-winograd"] if no_winograd else []
    return Choices(
        algorithms=tuple(names) or None,
        memory_budget=(
            byte_count(memory_budget, "--memory-budget") if memory_budget is not None else None
        ),
        error_budget=error_budget,
        overrides=override,
        log=tuning_log,
        finite=finite,
        fold_budget=fold_bytes(fold_budget),
        requantize=requantize,
        precision=precision,
        cc=cc,
        outputs=parse_outputs(outputs),
        batch=batch,
    )


def with_choices(subcommand: Callable[..., None]) -> Callable[..., None]:
    """A subcommand with the options of :func:`parse_choices` in place of its ``choices``."""
    return with_group(subcommand, "choices", parse_choices)
