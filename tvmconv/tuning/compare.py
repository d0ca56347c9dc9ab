"""One workload in the space of MetaSchedule's rules, compared with the default."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.host import host_model
from tvmconv.machines.record import Machine
from tvmconv.records.logfile import append, read_log
from tvmconv.records.record import machine_facts, machine_key
from tvmconv.records.space import make_space, refusal
from tvmconv.tuning import auto
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.measure import WEIGHTS
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.results import MeasuredChoice, gain, is_better, measured_record
from tvmconv.tuning.settings import Comparison, Outcome, Settings
from tvmconv.tuning.untuned import untuned_choice

# algorithms that MetaSchedule's multi-level tiling can schedule
_EXPRESSIONS = ("direct", "direct_first", "depthwise")


def tune_auto(
    workload: Conv2dWorkload,
    machine: Machine,
    settings: Settings,
    log: Path,
    journal: Journal,
    provenance: Callable[[], Mapping[str, Any]],
    deadline: float = math.inf,
) -> Outcome:
    """Tune one workload with MetaSchedule's rules and log the result if it beats the default.

    The record goes to ``log``, finished workloads to ``journal``. ``provenance`` returns
    ``versions`` and ``date`` of a record. At the ``deadline``, in the time of ``time.monotonic``,
    the search ends, and starts afresh in a later run.
    """
    start = time.monotonic()
    default = untuned_choice(workload, machine, settings.policy)
    outcome = Outcome(workload, default=default[0])
    key = settings.to_json("auto")
    outcome.done = True
    if journal.finished(str(workload), key):
        outcome.status = "done before"
        return outcome
    expression = _expression(workload, machine)
    left = deadline - start
    answer = auto.run(workload, machine, expression, default, settings, seconds=left)
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
        measured = (
            MeasuredChoice(*choice, tuple(samples), check["error"], check["limit"])
            for choice, samples, check in zip(
                (default, expression), answer["samples"], checks, strict=True
            )
        )
        record = measured_record(
            workload,
            machine,
            *measured,
            device={"cpu": host_model()},
            tuner=settings.described("auto", outcome.trials, WEIGHTS),
            **provenance(),
        )
        append(log, [record.to_line()])
    journal.finish(str(workload), key)
    return outcome


def compare_spaces(
    workload: Conv2dWorkload,
    machine: Machine,
    settings: Settings,
    log: Path,
    journal: Journal,
    deadline: float = math.inf,
) -> Comparison:
    """Tune a workload in the auto space, and measure the best of both spaces interleaved.

    Takes the arguments of :func:`tune_auto`; ``log`` holds the record of the knob space.
    """
    name, key = str(workload), settings.to_json("both")
    if known := journal.result(name, key):
        return Comparison(**known)
    default = untuned_choice(workload, machine, settings.policy)
    knobs = _recorded(workload, machine, settings, log) or default
    expression = _expression(workload, machine)
    start = Comparison(
        _text(default),
        _text(knobs),
        _text(expression),
        knobs_trials=min(len(journal.trials(name)), settings.trials),
    )
    left = deadline - time.monotonic()
    answer = auto.run(workload, machine, expression, default, settings, knobs, left)
    if "failed" in answer:
        return replace(start, failed=str(answer["failed"]))
    base, tuned, best = answer["samples"]
    if not (base and tuned and best):
        return replace(start, auto_trials=int(answer["trials"]), failed="wrong result")
    ratio, bound = gain(tuned, best)
    found = replace(
        start,
        default_seconds=median(base),
        knobs_seconds=median(best),
        auto_seconds=median(tuned),
        ratio=ratio,
        lower_bound=bound,
        auto_trials=int(answer["trials"]),
    )
    journal.keep(name, key, asdict(found))
    return found


def _text(choice: Choice) -> str:
    return f"{choice[0]} {choice[1]}"


def _recorded(
    workload: Conv2dWorkload, machine: Machine, settings: Settings, log: Path
) -> Choice | None:
    """The best record of this machine that a search with these settings wrote.

    A longer search would be compared with a shorter one in the other space.
    """
    if not log.exists():
        return None
    key = machine_key(machine_facts(machine))
    records = [
        record
        for record in read_log(log, warn=False).records
        if record.workload == workload
        and machine_key(record.machine) == key
        and record.tuner.get("seed") == settings.seed
        and record.tuner.get("trials") in range(settings.trials + 1)
        and not refusal(record)
    ]
    best = max(records, key=lambda record: record.speedup, default=None)
    return (best.algorithm, best.config) if best else None


def _expression(workload: Conv2dWorkload, machine: Machine) -> Choice:
    for name in _EXPRESSIONS:
        try:
            return name, make_space(workload, machine, name).starts[0]
        except ConfigError:
            continue
    raise ConfigError(
        f"no tensor expression for --search metaschedule computes {workload}. Use --search knobs."
    )
