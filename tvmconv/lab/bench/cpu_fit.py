"""Fitting the constants of CPU cost models to the candidates of layers, measured on this host.

Only ratios of predictions decide, and the clock of a host is rarely known. The clock is therefore
taken from direct convolution: half of its predictions are too long, half too short. Each suite is
also predicted with constants that were fitted to the other suites, which a fit did not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from statistics import fmean, median
from typing import Any

from tvmconv.core.errors import InputError
from tvmconv.costs.constant import constants_of, replaced
from tvmconv.costs.cpu import constants
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.check_model import check_layer, measured_workload
from tvmconv.lab.bench.descent import descend, huber
from tvmconv.machines.record import Machine
from tvmconv.measuring.suites import Layer
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table
from tvmconv.selection.policy import make_policy

# the models that are fitted, in order, each to the candidates of one algorithm
MODELS = {"microkernel": "direct", "winograd": "winograd"}
_FAR = log(1.25)
_RANGE = 4.0
_FEWEST = 8

_CONSTANTS = (
    Column("name", "constant"),
    Column("model", "model"),
    Column("unit", "unit"),
    Column("old", "old", ".4g"),
    Column("new", "new", ".4g"),
)
_ERRORS = (
    Column("suite", "suite"),
    Column("model", "model"),
    Column("candidates", "candidates"),
    Column("before", "error before %", ".1f", 100),
    Column("after", "after %", ".1f", 100),
    Column("unseen", "fitted without the suite %", ".1f", 100),
)
_LOSSES = (
    Column("suite", "suite"),
    Column("layers", "layers"),
    Column("before", "loss before %", ".1f", 100),
    Column("after", "after %", ".1f", 100),
    Column("unseen", "fitted without the suite %", ".1f", 100),
)
Values = Mapping[str, float]


@dataclass(frozen=True)
class Timed:
    """A candidate of a layer with its measured time.

    Parameters
    ----------
    suite, layer
        Where the layer comes from.
    kernel
        The candidate.
    seconds
        The minimum time of a call whose weights come from memory, as in a network.
    """

    suite: str
    layer: str
    kernel: Kernel
    seconds: float


def measure(
    suites: Mapping[str, Sequence[Layer]],
    machine: Machine,
    rounds: int,
    seconds: float,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Timed]:
    """Measure the candidates of all layers of some suites on this host."""
    rows = []
    for suite, layers in suites.items():
        for layer in {layer.workload: layer for layer in layers}.values():
            found, _ = check_layer(layer, machine, make_policy(), rounds, seconds)
            tell(f"{suite} {layer.name}: {len(found)} candidates")
            workload = measured_workload(layer, machine)
            for measured in found:
                offer = measured.candidate
                kernel = Kernel(workload, machine, offer.algorithm, offer.config)
                rows.append(Timed(suite, layer.name, kernel, measured.cold))
    return rows


def fit(rows: Sequence[Timed]) -> dict[str, float]:
    """The constants of :data:`MODELS` with the smallest error of logarithms.

    Raises
    ------
    InputError
        If there are too few candidates of a model.
    """
    values: dict[str, float] = {}
    for model, algorithm in MODELS.items():
        own = _of_model(rows, model)
        if len(own) < _FEWEST:
            raise InputError(
                f"fit of {model}: {len(own)} measured candidates of {algorithm}. Expected at "
                f"least {_FEWEST}. Add --suite NAME."
            )
        start = {n: float(c) for n, c in _known().items() if c.fit.model == model}
        clock = _clock(rows, values) if values else None
        values |= descend(start, partial(_objective, own, values, clock), _allowed)
    return values


def _of_model(rows: Sequence[Timed], model: str) -> list[Timed]:
    return [row for row in rows if row.kernel.algorithm == MODELS[model]]


def _objective(rows: Sequence[Timed], fixed: Values, clock: float | None, tried: Values) -> float:
    """The error of candidates; without a clock they find their own."""
    errors = _errors(rows, {**fixed, **tried})
    middle = median(errors) if clock is None else clock
    return fmean(huber(error - middle, _FAR) for error in errors)


def _allowed(name: str, value: float) -> bool:
    known = _known()[name]
    most = 1.0 if known.unit == "share" else _RANGE * known
    return known / _RANGE <= value <= most


_known = partial(constants_of, constants)


def _errors(rows: Sequence[Timed], values: Values) -> list[float]:
    """Logarithms of predicted cycles over measured seconds."""
    with replaced(constants, values):
        return [log(row.kernel.predicted_cycles / row.seconds) for row in rows]


def _clock(rows: Sequence[Timed], values: Values) -> float:
    """The logarithm of cycles in a second, by the candidates of direct convolution."""
    return median(_errors(_of_model(rows, "microkernel"), values))


def mean_error(rows: Sequence[Timed], values: Values, known: Sequence[Timed]) -> float:
    """The geometric mean of the factors by which predictions are wrong, less one.

    Parameters
    ----------
    rows
        What is predicted.
    values
        The constants.
    known
        Candidates of the same host, some of direct convolution: its clock.
    """
    clock = _clock(known, values)
    return exp(fmean(abs(error - clock) for error in _errors(rows, values))) - 1


def mean_loss(rows: Sequence[Timed], values: Values) -> float:
    """Time of the picked candidate over the fastest one, less one; the mean over layers."""
    layers: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with replaced(constants, values):
        for row in rows:
            times = layers.setdefault((row.suite, row.layer), [])
            times.append((row.kernel.predicted_cycles, row.seconds))
    return fmean(min(t)[1] / min(s for _, s in t) - 1 for t in layers.values())


def fit_report(
    rows: Sequence[Timed], machine: Machine, tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Fit to measured candidates; compare old and new values on all suites.

    Raises
    ------
    InputError
        If there are too few candidates of a model.
    """
    values = fit(rows)
    tell(f"fitted to {len(rows)} candidates")
    suites = list(dict.fromkeys(row.suite for row in rows))
    without: dict[str, Values] = {}
    for suite in suites:
        others = [row for row in rows if row.suite != suite]
        if all(len(_of_model(others, model)) >= _FEWEST for model in MODELS):
            without[suite] = fit(others)
            tell(f"fitted without {suite}")
    errors: list[dict[str, Any]] = []
    losses: list[dict[str, Any]] = []
    for suite in suites:
        own = [row for row in rows if row.suite == suite]
        layers = len({row.layer for row in own})
        forms = {"before": {}, "after": values, "unseen": without.get(suite)}
        losses.append({"suite": suite, "layers": layers, **_by_form(mean_loss, own, forms)})
        for model in MODELS:
            if some := _of_model(own, model):
                facts = {"suite": suite, "model": model, "candidates": len(some)}
                errors.append({**facts, **_by_form(partial(mean_error, known=rows), some, forms)})
    known = _known()
    return Report(
        kind="cpu-fit",
        title=f"constants fitted to {len(rows)} candidates, {machine.cores} thread(s)",
        facts={
            "target": machine.name,
            "threads": machine.cores,
            "rates": machine.rates.origin,
            "suites": ", ".join(suites),
        },
        tables=(
            Table(
                "constants",
                "Constants",
                _CONSTANTS,
                [
                    {
                        "name": name,
                        "model": known[name].fit.model,
                        "unit": known[name].unit,
                        "old": float(known[name]),
                        "new": value,
                    }
                    for name, value in values.items()
                ],
            ),
            Table("errors", "Mean error of predictions", _ERRORS, errors),
            Table("losses", "Mean loss of the picked candidates", _LOSSES, losses),
            Table(
                "candidates",
                "Candidates",
                (Column("layer", "layer"), Column("seconds", "cold weights ms", ".3f", 1e3)),
                [
                    {
                        "suite": row.suite,
                        "layer": row.layer,
                        "workload": str(row.kernel.workload),
                        "algorithm": row.kernel.algorithm,
                        "knobs": row.kernel.config.to_json(),
                        "seconds": row.seconds,
                    }
                    for row in rows
                ],
            ),
        ),
        notes=(
            "The clock is taken from direct convolution. Times are those of calls whose weights "
            "come from memory.",
        ),
    )


def _by_form(
    figure: Callable[[Sequence[Timed], Values], float],
    rows: Sequence[Timed],
    forms: Mapping[str, Values | None],
) -> dict[str, float | None]:
    return {
        form: None if values is None else figure(rows, values) for form, values in forms.items()
    }
