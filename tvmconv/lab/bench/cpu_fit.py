"""Fitting the constants of CPU cost models to the candidates of layers, measured on this host.

Only ratios of the candidates of one layer decide, and only these are measured in interleaved
rounds. A common factor of all predictions of a layer therefore does not count as an error. Each
suite is also predicted with constants that were fitted to the other suites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from statistics import fmean
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
from tvmconv.report.table import Column, Table, plain
from tvmconv.selection.policy import make_policy

# the models whose constants are fitted, and the algorithms whose candidates they predict
MODELS = ("microkernel", "winograd")
ALGORITHMS = ("direct", "winograd")
_FAR = log(1.25)
_RANGE = 4.0
_FEWEST = 8
# loss of a value that is e times the old one, or one e-th, to keep values that matter little
_MOVED = 0.002

_CONSTANTS = (
    Column("name", "constant"),
    *plain("model", "unit"),
    Column("old", "old", ".4g"),
    Column("new", "new", ".4g"),
)
_FORMS = (
    Column("before", "before %", ".1f", 100),
    Column("after", "after %", ".1f", 100),
    Column("unseen", "fitted without the suite %", ".1f", 100),
)
_ERRORS = (*plain("suite", "candidates"), *_FORMS)
_LOSSES = (*plain("suite", "layers"), *_FORMS)
Values = Mapping[str, float]


@dataclass(frozen=True)
class Timed:
    """A candidate of a layer with its measured time.

    ``suite`` and ``layer`` name its origin. ``seconds`` is the minimum time of a call whose weights
    come from memory, as in a network.
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

    Raises :class:`InputError` if there are too few candidates.
    """
    own = _predicted(rows)
    if len(own) < _FEWEST:
        raise InputError(
            f"fit of {', '.join(MODELS)}: {len(own)} measured candidates. Expected at least "
            f"{_FEWEST}. Add --suite NAME."
        )
    start = {name: float(c) for name, c in _known().items() if c.fit.model in MODELS}
    return descend(start, partial(_objective, own), _allowed)


def _predicted(rows: Sequence[Timed]) -> list[Timed]:
    return [row for row in rows if row.kernel.algorithm in ALGORITHMS]


def _objective(rows: Sequence[Timed], tried: Values) -> float:
    """The error of candidates, and of values for being far from the old ones."""
    known = _known()
    moved = sum(log(value / known[name]) ** 2 for name, value in tried.items())
    return fmean(huber(error, _FAR) for error in _errors(rows, tried)) + _MOVED * moved


def _allowed(name: str, value: float) -> bool:
    known = _known()[name]
    most = 1.0 if known.unit in ("share", "share of L2") else _RANGE * known
    return known / _RANGE <= value <= most


_known = partial(constants_of, constants)


def _times(rows: Sequence[Timed], values: Values) -> list[list[tuple[float, float]]]:
    """For each layer, predicted cycles and measured seconds of its candidates."""
    layers: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with replaced(constants, values):
        for row in rows:
            times = layers.setdefault((row.suite, row.layer), [])
            times.append((row.kernel.predicted_cycles, row.seconds))
    return list(layers.values())


def _errors(rows: Sequence[Timed], values: Values) -> list[float]:
    """Logarithms of predicted over measured time, less the mean of each layer's."""
    found: list[float] = []
    for times in _times(rows, values):
        errors = [log(cycles / seconds) for cycles, seconds in times]
        mean = fmean(errors)
        found += [error - mean for error in errors]
    return found


def mean_error(rows: Sequence[Timed], values: Values) -> float:
    """The geometric mean of the factors by which ratios are predicted wrong, less one."""
    return exp(fmean(map(abs, _errors(_predicted(rows), values)))) - 1


def mean_loss(rows: Sequence[Timed], values: Values) -> float:
    """Time of the picked candidate over the fastest one, less one; the mean over layers."""
    return fmean(min(t)[1] / min(s for _, s in t) - 1 for t in _times(rows, values))


def fit_report(
    rows: Sequence[Timed], machine: Machine, tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Fit to measured candidates; compare old and new values on all suites.

    Fails as :func:`fit`.
    """
    values = fit(rows)
    tell(f"fitted to {len(rows)} candidates")
    suites = list(dict.fromkeys(row.suite for row in rows))
    without: dict[str, Values] = {}
    for suite in suites:
        others = [row for row in rows if row.suite != suite]
        if len(_predicted(others)) >= _FEWEST:
            without[suite] = fit(others)
            tell(f"fitted without {suite}")
    errors: list[dict[str, Any]] = []
    losses: list[dict[str, Any]] = []
    for suite in suites:
        own = [row for row in rows if row.suite == suite]
        layers = len({row.layer for row in own})
        forms = {"before": {}, "after": values, "unseen": without.get(suite)}
        losses.append({"suite": suite, "layers": layers, **_by_form(mean_loss, own, forms)})
        facts = {"suite": suite, "candidates": len(_predicted(own))}
        errors.append({**facts, **_by_form(mean_error, own, forms)})
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
                (
                    *plain("layer", "algorithm"),
                    Column("seconds", "cold weights ms", ".3f", 1e3),
                ),
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
            "A common factor of the predictions of a layer does not count as an error. Times are "
            "those of calls whose weights come from memory.",
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
