"""How much to search, and the result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.records.space import KNOBS
from tvmconv.selection.policy import DEFAULT_ERROR_BUDGET, FLOAT32, Policy, make_policy
from tvmconv.tuning.journal import SPILLED
from tvmconv.tuning.measure import Final


@dataclass(frozen=True)
class Settings:
    """How much to search.

    A workload has at most ``trials`` measured candidates. It ends after ``early_stop`` trials
    without a better one; 0 never. ``algorithms`` are names to choose from, by default all.
    ``error_budget`` limits the estimated max|error| / max|reference| of a candidate; None for the
    limits of builds. ``precision`` and ``requantize`` are as of ``tvmconv.build``. ``batch``
    candidates are built before they are measured. ``final`` is the measurement that decides.
    """

    trials: int = 64
    early_stop: int = 0
    seed: int = 0
    algorithms: tuple[str, ...] = ()
    error_budget: float | None = None
    precision: str = FLOAT32
    requantize: str = "float"
    batch: int = 16
    final: Final = field(default_factory=Final)

    @property
    def policy(self) -> Policy:
        """The choices of a build without any log within these limits."""
        return make_policy(
            self.algorithms or None,
            self.error_budget,
            precision=self.precision,
            requantize=self.requantize,
        )

    def to_json(self, space: str = KNOBS) -> dict[str, Any]:
        """The settings for which a finished workload counts as finished in another run."""
        budget = self.error_budget
        decides = {
            "trials": self.trials,
            "early_stop": self.early_stop,
            "seed": self.seed,
            "algorithms": list(self.algorithms),
            "error_budget": DEFAULT_ERROR_BUDGET if budget is None else budget,
            **({} if self.precision == FLOAT32 else {"precision": self.precision}),
        }
        return decides if space == KNOBS else {**decides, "space": space}

    def described(self, space: str, trials: int, weights: str) -> dict[str, Any]:
        """How a search was made, for its records."""
        return {"space": space, "seed": self.seed, "trials": trials, "weights": weights}


@dataclass(frozen=True)
class Comparison:
    """The winners of the two spaces after as many trials, measured interleaved.

    ``default``, ``knobs`` and ``auto`` name algorithm and config. ``knobs`` is the default where no
    record was written; ``auto`` names the tensor expression. Times are medians. ``ratio`` says how
    many times faster ``knobs`` is than ``auto``, and ``lower_bound`` is its 95 % bound.

    ``knobs_progress`` and ``auto_progress`` have the trials of a search that were faster than all
    before, with their seconds. Each space measures its own trials: knobs as records say, auto by
    TVM's runner, which finds weights in the caches.
    """

    default: str
    knobs: str
    auto: str
    default_seconds: float = 0.0
    knobs_seconds: float = 0.0
    auto_seconds: float = 0.0
    ratio: float = 0.0
    lower_bound: float = 0.0
    knobs_trials: int = 0
    auto_trials: int = 0
    knobs_progress: Sequence[Sequence[float]] = ()
    auto_progress: Sequence[Sequence[float]] = ()
    failed: str = ""


# fields that a later run shows of a workload that is done
_SHOWN_AGAIN = (
    *("default", "best", "speedup", "lower_bound", "samples", "outliers"),
    *("default_seconds", "best_seconds"),
)


@dataclass
class Outcome:
    """The result of one workload.

    ``best_seconds`` and ``default_seconds`` are times of the search; ``speedup`` and
    ``lower_bound`` come from the final interleaved measurement. ``outliers`` of its ``samples`` are
    far above the others. ``baseline`` is the fastest other library.
    """

    workload: Conv2dWorkload
    status: str = "no gain"
    trials: int = 0
    remembered: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    default: str = ""
    default_seconds: float = math.inf
    best: str = ""
    best_seconds: float = math.inf
    speedup: float = 1.0
    lower_bound: float = 1.0
    samples: int = 0
    outliers: int = 0
    seconds: float = 0.0
    baseline: str = ""
    baseline_seconds: float = math.inf
    done: bool = False
    comparison: Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """The figures that :meth:`recall` restores; JSON has no infinite times."""
        known = {name: getattr(self, name) for name in _SHOWN_AGAIN}
        return {name: value for name, value in known.items() if value != math.inf}

    def recall(self, known: Mapping[str, Any] | None) -> None:
        """Become the outcome of a workload that an earlier run finished, with its figures."""
        self.status, self.done = "done before", True
        for name in _SHOWN_AGAIN:
            setattr(self, name, (known or {}).get(name, getattr(self, name)))

    @property
    def fresh(self) -> int:
        """Trials that this run measured."""
        return self.trials - self.remembered

    @property
    def spilled(self) -> int:
        """Trials that were not timed because nvcc spilled registers."""
        return self.failures[SPILLED]

    @property
    def over_baseline(self) -> float | None:
        """How many times faster than the best baseline; None where either is unknown."""
        known = math.isfinite(self.baseline_seconds) and math.isfinite(self.best_seconds)
        return self.baseline_seconds / self.best_seconds if known else None
