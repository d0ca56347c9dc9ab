"""One workload in the space of MetaSchedule's rules, compared with the default."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.records.logfile import append, read_log
from tvmconv.records.record import machine_facts, machine_key
from tvmconv.records.space import AUTO, BOTH, make_space, refusal, validate
from tvmconv.tuning import auto
from tvmconv.tuning.deciding import Contest
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.measure import Measurer
from tvmconv.tuning.pool import Choice
from tvmconv.tuning.results import MeasuredChoice, gain, improvements, measured_record
from tvmconv.tuning.settings import Comparison, Outcome, Settings

# algorithms that MetaSchedule's multi-level tiling can schedule
_EXPRESSIONS = ("direct", "direct_first", "depthwise", "dense")


def tune_auto(
    workload: Conv2dWorkload,
    machine: Machine,
    measurer: Measurer,
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
    key = settings.to_json(AUTO)
    outcome.done = True
    if journal.finished(str(workload), key):
        outcome.recall(journal.result(str(workload), key))
        return outcome
    expression = _expression(workload, machine)
    answer = auto.run(workload, machine, expression, settings, deadline - start, measurer.tracker)
    outcome.trials = int(answer.get("trials", 0))
    if "failed" in answer:
        outcome.status, outcome.seconds = str(answer["failed"]), time.monotonic() - start
        return outcome
    found = _traced(workload, machine, expression, answer["traces"])
    contest = Contest(workload, machine, measurer, default, settings.final)
    decided = contest.decide(found, outcome) if found else None
    outcome.seconds = time.monotonic() - start
    if decided is None:
        return outcome
    base, winners = decided
    outcome.best = f"auto {expression[0]}"
    outcome.default_seconds = median(base.samples)
    outcome.best_seconds = outcome.default_seconds / outcome.speedup
    if winners:
        outcome.status = "recorded"
        record = measured_record(
            workload,
            machine,
            base,
            winners[0],
            device=measurer.identity(),
            tuner=settings.described(AUTO, outcome.trials, measurer.weights),
            **provenance(),
        )
        append(log, [record.to_line()])
    journal.keep(str(workload), key, outcome.to_json())
    journal.finish(str(workload), key)
    return outcome


def _traced(
    workload: Conv2dWorkload, machine: Machine, expression: Choice, traces: list[str]
) -> list[Choice]:
    """The choices of a search that builds accept."""
    name, knobs = expression
    found = []
    for trace in traces:
        with contextlib.suppress(ConfigError):
            config = validate(workload, machine, name, knobs.with_trace(trace))
            found.append((name, config))
    return found


def compare_spaces(
    workload: Conv2dWorkload,
    machine: Machine,
    measurer: Measurer,
    settings: Settings,
    log: Path,
    journal: Journal,
    deadline: float = math.inf,
) -> Comparison:
    """Tune a workload in the auto space, and measure the best of both spaces interleaved.

    Takes the arguments of :func:`tune_auto`; ``log`` holds the record of the knob space.
    """
    name, key = str(workload), settings.to_json(BOTH)
    if known := journal.result(name, key):
        return Comparison(**known)
    default = untuned_choice(workload, machine, settings.policy)
    knobs = _recorded(workload, machine, settings, log) or default
    expression = _expression(workload, machine)
    trials = list(islice(journal.trials(name).values(), settings.trials))
    start = Comparison(
        _text(default),
        _text(knobs),
        _text(expression),
        knobs_trials=len(trials),
        knobs_progress=improvements(trial.seconds for trial in trials),
    )
    left = deadline - time.monotonic()
    answer = auto.run(workload, machine, expression, settings, left, measurer.tracker)
    if "failed" in answer:
        return replace(start, failed=str(answer["failed"]))
    start = replace(
        start,
        auto_trials=int(answer["trials"]),
        auto_progress=improvements(answer.get("seconds", ())),
    )
    traced = _traced(workload, machine, expression, answer["traces"])
    # knobs that are the default are measured once: another copy has other pages
    choices = list(dict.fromkeys([default, knobs, *traced]))
    results = measurer.interleaved(workload, machine, choices, settings.final)
    measured = dict(zip(choices, results, strict=True))
    base, best = measured[default], measured[knobs]
    good = [m for m in (measured[choice] for choice in traced) if isinstance(m, MeasuredChoice)]
    if not (isinstance(base, MeasuredChoice) and isinstance(best, MeasuredChoice) and good):
        return replace(start, failed="wrong result")
    tuned = min(good, key=lambda each: median(each.samples))
    ratio, bound = gain(tuned.samples, best.samples)
    found = replace(
        start,
        default_seconds=median(base.samples),
        knobs_seconds=median(best.samples),
        auto_seconds=median(tuned.samples),
        ratio=ratio,
        lower_bound=bound,
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
        and not record.config.trace
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
