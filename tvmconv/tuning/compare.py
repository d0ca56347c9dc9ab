"""One workload in the space of MetaSchedule's rules: outcome and record beside the default."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvmconv.errors import ConfigError
from tvmconv.machine import Machine, host_model
from tvmconv.tuning import auto
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.logfile import append
from tvmconv.tuning.measure import WEIGHTS, gain, is_better
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.record import Record, machine_facts
from tvmconv.tuning.settings import Outcome, Settings
from tvmconv.tuning.space import make_space
from tvmconv.tuning.tuner import untuned_choice
from tvmconv.workload import Conv2dWorkload

# what MetaSchedule's multi-level tiling is made for; the others have stages of their own
_EXPRESSIONS = ("direct", "direct_first", "depthwise")


def tune_auto(
    workload: Conv2dWorkload,
    machine: Machine,
    settings: Settings,
    log: Path,
    journal: Journal,
    provenance: Callable[[], Mapping[str, Any]],
) -> Outcome:
    """Tune one workload with MetaSchedule's rules and log the result if it beats the default.

    Parameters
    ----------
    workload, machine
        What to tune.
    settings
        Trials, seed and the final measurement.
    log, journal
        Where the record goes, and where it is noted that the workload is done.
    provenance
        Returns ``versions`` and ``date`` of a record.
    """
    start = time.monotonic()
    default = untuned_choice(workload, machine, settings.error_budget, settings.algorithms)
    outcome = Outcome(workload, default=default[0])
    key = settings.to_json("auto")
    outcome.done = True
    if journal.finished(str(workload), key):
        outcome.status = "done before"
        return outcome
    expression = _expression(workload, machine)
    answer = auto.run(
        workload,
        machine,
        expression,
        default,
        settings.trials,
        settings.seed,
        settings.final.rounds,
        settings.final.seconds,
    )
    outcome.seconds = time.monotonic() - start
    outcome.trials = int(answer.get("trials", 0))
    if "failed" in answer:
        outcome.status = str(answer["failed"])
        return outcome
    (base, tuned), checks = answer["samples"], answer["checks"]
    outcome.failures["wrong"] += sum(check["status"] != "correct" for check in checks)
    if not (base and tuned):
        outcome.status = "wrong result"
        return outcome
    outcome.best = f"auto {expression[0]}"
    outcome.best_seconds, outcome.default_seconds = min(tuned), min(base)
    outcome.speedup, outcome.lower_bound = gain(base, tuned)
    if is_better(base, tuned):
        outcome.status = "recorded"
        record = Record(
            workload=workload,
            machine=machine_facts(machine),
            algorithm=expression[0],
            config=expression[1],
            samples=tuple(tuned),
            default_algorithm=default[0],
            default_config=default[1],
            default_samples=tuple(base),
            verification={
                "reference": "float64",
                "error": checks[1]["error"],
                "limit": checks[1]["limit"],
            },
            device={"cpu": host_model()},
            tuner={
                "space": "auto",
                "seed": settings.seed,
                "trials": outcome.trials,
                "weights": WEIGHTS,
            },
            **provenance(),
        )
        append(log, [record.to_line()])
    journal.finish(str(workload), key)
    return outcome


def _expression(workload: Conv2dWorkload, machine: Machine) -> Choice:
    for name in _EXPRESSIONS:
        try:
            return name, make_space(workload, machine, name).starts[0]
        except ConfigError:
            continue
    raise ConfigError(f"no tensor expression for the auto space computes {workload}")
