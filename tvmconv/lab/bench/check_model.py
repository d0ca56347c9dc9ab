"""The cost model compared with the clock: where selection differs from measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.decision import Candidate
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.baselines.cold import Eviction, cold_call
from tvmconv.lab.bench.kernel_run import KernelRun, relative_error
from tvmconv.machines.record import Machine
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.suites import Layer
from tvmconv.report.clock import Clock, clock_of
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, plain
from tvmconv.selection.policy import Policy, make_policy
from tvmconv.selection.select import select

# slower predictions, in times of the fastest one, are not measured
_MEASURED_WITHIN = 2.5
# the largest difference of the outputs of two candidates
_DIFFERENT = 1e-3
_COLD_CALLS = 2

_LAYERS = (
    Column("layer", "layer"),
    Column("workload", "problem"),
    Column("picked", "model picks"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("picked_seconds", "measured ms", ".3f", 1e3),
    Column("fastest", "clock picks"),
    Column("fastest_seconds", "measured ms", ".3f", 1e3),
    Column("loss", "loss %", ".1f", 100),
    Column("fastest_cold", "clock picks, cold weights"),
    Column("cold_loss", "loss %", ".1f", 100),
)
_CANDIDATES = (
    *plain("layer", "candidate"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("seconds", "measured ms", ".3f", 1e3),
    Column("ratio", "measured / predicted", ".2f"),
    Column("cold_seconds", "cold weights ms", ".3f", 1e3),
)


@dataclass(frozen=True)
class TimedCandidate:
    """A candidate with its minimum times, in seconds.

    ``seconds`` is for consecutive calls; ``cold`` for calls with weights in memory and input in the
    caches, as in a network.
    """

    candidate: Candidate
    seconds: float
    cold: float

    def row(self, clock: Clock) -> dict[str, Any]:
        """A row of the table of candidates."""
        offer = self.candidate
        return {
            "candidate": label(offer),
            "algorithm": offer.algorithm,
            "knobs": offer.config.to_json(),
            "predicted_cycles": offer.cycles,
            "predicted_seconds": clock.seconds(offer.cycles),
            "seconds": self.seconds,
            "ratio": self.seconds / clock.seconds(offer.cycles),
            "cold_seconds": self.cold,
            "parts": dict(offer.parts),
        }


def label(offer: Candidate) -> str:
    """An algorithm with its config."""
    return f"{offer.algorithm} ({offer.config})"


def measured_workload(layer: Layer, machine: Machine) -> Conv2dWorkload:
    """A layer's workload; with fewer input channels than a block it reads NCHW."""
    blocked = layer.workload.data_layout == "NCHWc"
    if blocked and layer.workload.in_channels < machine.channel_block:
        return replace(layer.workload, data_layout="NCHW")
    return layer.workload


def check_layer(
    layer: Layer,
    machine: Machine,
    policy: Policy,
    rounds: int,
    seconds: float,
    other: Machine | None = None,
) -> tuple[tuple[TimedCandidate, ...], int]:
    """Measure the candidates of one layer in interleaved rounds; the model's choice comes first.

    ``machine`` is a model of this host, whose cores are the threads. Each candidate takes
    ``seconds`` in each of the ``rounds``. Candidates of another machine model, ``other``, are
    measured as well. Returns the candidates, with the predictions of ``machine`` where both offer
    one, and the index of the choice of ``other``. Fails if two candidates compute different things.
    """
    workload = measured_workload(layer, machine)
    ours = _offers(workload, machine, layer.name, policy)
    theirs = ours if other is None else _offers(workload, other, layer.name, policy)
    known = set(map(_identity, ours))
    offers = [*ours, *(o for o in theirs if _identity(o) not in known)]
    picked = list(map(_identity, offers)).index(_identity(theirs[0]))
    inputs, constants = random_operands(workload)
    runs = [
        KernelRun(
            Kernel(workload, machine, o.algorithm, o.config), inputs, constants, machine.cores
        )
        for o in offers
    ]
    best, cold = ([float("inf")] * len(runs) for _ in range(2))
    evict = Eviction(machine.last_cache_bytes)
    for run, offer in zip(runs, offers, strict=True):
        run()
        error = relative_error(run.output(), runs[0].output())
        assert error < _DIFFERENT, f"{label(offer)} of {workload} is off by {error:.1e}"
    for number in range(rounds):
        # reversed every other round, so that none always runs on a core that another one has heated
        order = range(len(runs)) if number % 2 == 0 else reversed(range(len(runs)))
        for i in order:
            best[i] = min(best[i], _least(runs[i], seconds))
            for _ in range(_COLD_CALLS):
                cold[i] = min(cold[i], cold_call(runs[i], evict, runs[i].touch_activations))
    return tuple(map(TimedCandidate, offers, best, cold)), picked


def _identity(offer: Candidate) -> tuple[str, Config]:
    return offer.algorithm, offer.config


def _offers(
    workload: Conv2dWorkload, machine: Machine, layer: str, policy: Policy
) -> list[Candidate]:
    """The candidates worth measuring, the model's choice first."""
    decision = select(workload, machine, layer=layer, policy=policy)
    limit = _MEASURED_WITHIN * decision.chosen.cycles
    rivals = (o for o in decision.rejected if o.cause == "slower" and o.cycles <= limit)
    return [decision.chosen, *rivals]


def _least(run: Callable[[], None], seconds: float) -> float:
    run()
    best, until = float("inf"), perf_counter() + seconds
    while True:
        start = perf_counter()
        run()
        end = perf_counter()
        best = min(best, end - start)
        if end >= until:
            return best


def check_model_report(
    layers: Sequence[Layer],
    machine: Machine,
    *,
    policy: Policy | None = None,
    rounds: int = 3,
    seconds: float = 0.05,
    other: Machine | None = None,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """Compare the model's choice of every layer with the clock's.

    Equal workloads are measured once, with the arguments of :func:`check_layer`; ``tell`` gets a
    line for each. In the tables ``layers`` and ``candidates``, the loss is the chosen candidate's
    measured time over the fastest one's, less one.
    """
    policy, clock = policy or make_policy(), clock_of(machine)
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    for layer in {layer.workload: layer for layer in reversed(layers)}.values():
        found, theirs = check_layer(layer, machine, policy, rounds, seconds, other)
        fastest, cold = min(found, key=lambda m: m.seconds), min(found, key=lambda m: m.cold)
        row = {
            "layer": layer.name,
            "workload": str(layer.workload),
            "count": layer.count,
            "picked": label(found[0].candidate),
            "predicted_seconds": clock.seconds(found[0].candidate.cycles),
            "picked_seconds": found[0].seconds,
            "fastest": "the same" if fastest is found[0] else label(fastest.candidate),
            "fastest_seconds": fastest.seconds,
            "loss": found[0].seconds / fastest.seconds - 1,
            "picked_cold_seconds": found[0].cold,
            "fastest_cold": "the same" if cold is found[0] else label(cold.candidate),
            "fastest_cold_seconds": cold.cold,
            "cold_loss": found[0].cold / cold.cold - 1,
            "other_picked_seconds": found[theirs].seconds,
            "other_loss": found[theirs].seconds / fastest.seconds - 1,
            "other_picked_cold_seconds": found[theirs].cold,
            "other_cold_loss": found[theirs].cold / cold.cold - 1,
        }
        rows.append(row)
        details += [{"layer": layer.name, **measured.row(clock)} for measured in found]
        if tell:
            tell(
                f"{layer.name}: loses {row['loss']:.1%}, with cold weights "
                f"{row['cold_loss']:.1%}; {len(found)} candidates"
            )
    rows.sort(key=lambda row: -row["loss"])
    return Report(
        kind="check-model",
        title=f"the cost model against the clock on {len(rows)} layers, {machine.cores} thread(s)",
        facts={
            "target": machine.name,
            "threads": machine.cores,
            "predicted_at": str(clock),
            "rates": machine.rates.origin,
            "error_budget": policy.error_budget,
            **_losses(rows),
            **_losses(rows, "cold_"),
            **(_other_facts(rows, other) if other is not None else {}),
        },
        tables=(
            Table("layers", "Layers, the largest loss first", _LAYERS, rows),
            Table("candidates", "Candidates", _CANDIDATES, details),
        ),
        notes=(
            f"Candidates predicted to take more than {_MEASURED_WITHIN} times the least "
            "prediction are not measured. Cold weights lie in memory before a call, as in a "
            "network.",
        ),
    )


def _losses(rows: Sequence[dict[str, Any]], prefix: str = "", record: str = "") -> dict[str, Any]:
    """Facts about losses.

    ``prefix`` is empty for warm weights and ``cold_`` for cold ones; ``record`` is ``other_`` for
    choices by the other machine model.
    """
    losses = [row[f"{record}{prefix}loss"] for row in rows]
    picked, least = (
        sum(row[f"{name}_{prefix}seconds"] * row["count"] for row in rows)
        for name in (f"{record}picked", "fastest")
    )
    facts = {
        "mean_loss": sum(losses) / len(losses),
        "worst_loss": max(losses),
        "loss_of_total_time": picked / least - 1,
        "layers_picked_otherwise": sum(loss > 0 for loss in losses),
    }
    return {f"{record}{prefix}{name}": value for name, value in facts.items()}


def _other_facts(rows: Sequence[dict[str, Any]], other: Machine) -> dict[str, Any]:
    warm, cold = (_losses(rows, prefix, "other_") for prefix in ("", "cold_"))
    return {"other_rates": other.rates.origin, **warm, **cold}
