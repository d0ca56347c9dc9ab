"""Tunes all distinct workloads of models, suites and layers: order, budgets, resumption."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tvmconv.core.errors import ConfigError
from tvmconv.core.tensor import ShapeLists, Shapes
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.record import processor
from tvmconv.measuring.gpu.state import gpu_state
from tvmconv.records.record import machine_facts
from tvmconv.records.space import AUTO, BOTH, KNOBS, make_space
from tvmconv.selection.policy import Policy, make_policy
from tvmconv.tuning.cost_model import check_packages, predicted
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.settings import Outcome, Settings

if TYPE_CHECKING:
    from tvmconv.building import ModelLike
    from tvmconv.tuning.measure import Measurer


class Rivals(Protocol):
    """Other libraries whose times are shown next to the result of tuning."""

    def best(self, workload: Conv2dWorkload) -> tuple[str, float]:
        """The name and seconds of the fastest one; an empty name for none."""


@dataclass(frozen=True)
class Task:
    """A workload, its name, and how often it occurs.

    ``facts`` hold for the weights of all these layers; None where they are unknown.
    """

    name: str
    workload: Conv2dWorkload
    count: int = 1
    facts: WeightFacts | None = None


@dataclass(frozen=True)
class Progress:
    """The state of a session.

    ``number`` of ``total`` workloads is ``task``, with at most ``trials`` candidates each.
    ``trials_left`` and ``seconds_left`` are for this and all further workloads. The seconds follow
    from the speed so far and the time budget; they are infinite before the first measurement.
    """

    task: Task
    number: int
    total: int
    trials: int
    outcome: Outcome
    trials_left: int
    seconds_left: float


Observer = Callable[[Progress], None]


def collect(
    machine: Device,
    models: Sequence[ModelLike] = (),
    suites: Sequence[str] = (),
    layers: Sequence[str] = (),
    shapes: ShapeLists | None = None,
    fold_budget: int | None = None,
    policy: Policy | None = None,
    outputs: Sequence[str] | None = None,
) -> tuple[Task, ...]:
    """The distinct workloads of all convolutions and fully connected layers that are tuned.

    ``shapes``, ``fold_budget`` and ``outputs`` are arguments of :func:`tvmconv.build` for the
    models. The policy decides how models are quantized and rounded. Fails if something cannot be
    read, or no algorithm computes a layer.
    """
    from tvmconv.frontend import ShapedModel
    from tvmconv.measuring import suites as library

    found: dict[Conv2dWorkload, Task] = {}

    def add(
        name: str, workload: Conv2dWorkload, count: int, facts: WeightFacts | None = None
    ) -> None:
        old = found.get(workload, Task(name, workload, 0))
        joined = old.facts.joined(facts) if old.facts and facts else old.facts or facts
        found[workload] = replace(old, count=old.count + count, facts=joined)

    given = policy or make_policy()
    policy = make_policy(precision=given.precision, requantize=given.requantize)
    for model in models:
        for given_shapes in ShapedModel(model, shapes).shapes:
            for name, workload, facts in _of_model(
                model, machine, policy, given_shapes, fold_budget, outputs
            ):
                add(name, workload, 1, facts)
    for suite in suites:
        for layer in library.load(suite):
            add(layer.name, layer.workload, layer.count)
    for text in layers:
        layer = library.parse_layer(text)
        add(layer.name, layer.workload, layer.count)
    return tuple(found.values())


def tunable(
    tasks: Sequence[Task], machine: Device, settings: Settings
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """The tasks that the algorithms of the settings compute, and those they do not.

    Raises :class:`ConfigError` if they compute none.
    """
    if not settings.algorithms:
        return tuple(tasks), ()
    able, left = [], []
    for task in tasks:
        try:
            untuned_choice(task.workload, machine, settings.policy, task.facts)
            able.append(task)
        except ConfigError:
            left.append(task)
    if left and not able:
        raise ConfigError(
            f"algorithms={list(settings.algorithms)} compute none of the {len(left)} layers. "
            "Name other algorithms, or leave them out."
        )
    return tuple(able), tuple(left)


def check_host(machine: Device) -> None:
    """Raise :class:`ArtifactError` for code that this machine cannot run."""
    if isinstance(machine, CudaMachine):
        gpu_state(machine)
        return
    ensure_machine(
        processor(machine), "a candidate", "tune on a device of that kind with --rpc-tracker"
    )


def check_device(machine: Device) -> None:
    """Raise :class:`ArtifactError` if no C compiler here links code for the device."""
    from tvmconv.compile.toolchain import Toolchain

    Toolchain.find(triple=machine.triple)


def tune(
    tasks: Sequence[Task],
    machine: Device,
    measurer: Measurer,
    log: Path,
    settings: Settings,
    *,
    total_trials: int = 0,
    time_budget: float = math.inf,
    space: str = KNOBS,
    baselines: Rivals | None = None,
    observe: Observer | None = None,
) -> list[Outcome]:
    """Tune workloads one after another, in the order of the time that they take.

    Candidates run at the ``measurer``; records are appended to ``log``, and trials are stored next
    to it. ``total_trials`` are shared evenly among the workloads, or among as many as
    there are trials; 0 leaves the limit of ``settings`` alone.

    The ``time_budget`` in seconds is shared by the predicted times of the workloads in a network;
    later ones get the time that earlier ones leave. The ``space`` is
    ``knobs`` of the schedules, ``auto``, which is MetaSchedule's rules on this machine, or ``both``
    for comparison. ``baselines`` are shown next to the best; ``observe`` is called after every
    trial.
    """
    from tvmconv.measuring.host import versions
    from tvmconv.tuning.compare import compare_spaces, tune_auto
    from tvmconv.tuning.tuner import WorkloadTuner

    check_packages()
    known = versions()
    context = {
        "machine": machine_facts(machine),
        "versions": known,
        "weights": measurer.weights,
        "times": measurer.times,
    }
    journal = Journal(log, context)
    if total_trials:
        share = max(total_trials // max(len(tasks), 1), 1)
        settings = replace(settings, trials=min(settings.trials, share))
    start = time.monotonic()
    outcomes: list[Outcome] = []

    weights = {task: _weight(task, machine, settings) for task in tasks}
    ordered = sorted(tasks, key=lambda task: -weights[task])[: total_trials or None]
    for number, task in enumerate(ordered):
        left = time_budget - (time.monotonic() - start)
        if left <= 0:
            break
        part = weights[task] / sum(weights[other] for other in ordered[number:])
        deadline = time.monotonic() + left * part

        baseline = ("", math.inf)
        if baselines is not None and not journal.finished(
            str(task.workload), settings.to_json(AUTO if space == AUTO else KNOBS)
        ):
            baseline = baselines.best(task.workload)

        def tell(
            outcome: Outcome,
            task: Task = task,
            number: int = number,
            baseline: tuple[str, float] = baseline,
        ) -> None:
            outcome.baseline, outcome.baseline_seconds = baseline
            if observe is not None:
                spent = time.monotonic() - start
                later = settings.trials * (len(ordered) - number - 1)
                left = later + (0 if outcome.done else settings.trials - outcome.trials)
                measured = outcome.fresh + sum(o.fresh for o in outcomes if o is not outcome)
                seconds = spent / measured * left if measured else math.inf if left else 0.0
                seconds = min(seconds, max(time_budget - spent, 0.0))
                total = len(ordered)
                observe(Progress(task, number, total, settings.trials, outcome, left, seconds))

        if space == AUTO:
            outcome = tune_auto(
                task.workload,
                processor(machine),
                measurer,
                settings,
                log,
                journal,
                host_provenance,
                deadline,
            )
            tell(outcome)
        else:
            tuner = WorkloadTuner(
                task.workload,
                machine,
                measurer,
                settings,
                log,
                journal,
                host_provenance,
                task.facts,
            )
            outcome = tuner.run(deadline, tell)
            if space == BOTH:
                outcome.comparison = compare_spaces(
                    task.workload, processor(machine), measurer, settings, log, journal, deadline
                )
        outcomes.append(outcome)
    return outcomes


def host_provenance() -> dict[str, Any]:
    """Versions and date of a record that this process writes."""
    from tvmconv.measuring.host import versions

    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"versions": versions(), "date": date}


def _of_model(
    model: ModelLike,
    machine: Device,
    policy: Policy,
    shapes: Shapes | None,
    fold_budget: int | None,
    outputs: Sequence[str] | None,
) -> Iterable[tuple[str, Conv2dWorkload, WeightFacts]]:
    """Name, workload and facts of the weights of a model's layers, as a build finds them."""
    from tvmconv.graph.layout import weight_facts
    from tvmconv.graph.prelude import plan_model

    planned = plan_model(model, machine, policy, shapes, fold_budget, outputs)
    found = []
    for node, d in (pair for each in planned for pair in each.plan.decisions.items()):
        w = d.workload
        # a build selects the config of a layer that reads NHWC as if it read NCHW
        w = replace(w, data_layout="NCHW") if w.data_layout == "NHWC" else w
        found.append((d.layer, w, weight_facts(node, w, machine)))
    return found


def _weight(task: Task, machine: Device, settings: Settings) -> float:
    policy = make_policy(precision=settings.precision, requantize=settings.requantize)
    algorithm, config = untuned_choice(task.workload, machine, policy, task.facts)
    return task.count * predicted(make_space(task.workload, machine, algorithm), config)
