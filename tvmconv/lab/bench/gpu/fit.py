"""The cost model's constants for GPUs, fitted to measured kernels.

Documents state at most the peak of four figures: filled issue slots, the rates of L2 and memory,
and the time of a launch. A fit multiplies each by a factor; the counts of the model stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.errors import InputError, TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.descent import descend, huber
from tvmconv.lab.bench.gpu.predictions import RIGHT_WITHIN, share_right
from tvmconv.lab.bench.result import BenchResult
from tvmconv.machines.cuda import MACHINES, CudaMachine
from tvmconv.report.document import Report
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

# fields of the machine model; lanes are FMA units whose slots are all filled
FACTORS = ("lanes", "l2_rate", "memory_rate", "launch_seconds")
_RANGE = 8.0
# errors beyond this count in proportion only, so that an outlier does not decide
_FAR = log(1.0 + RIGHT_WITHIN)
_FEWEST = 8
_COLUMNS = (
    *plain("case"),
    IMPLEMENTATION,
    Column("measured_seconds", "ms median", ".4f", 1e3),
    Column("before", "predicted / measured", ".2f"),
    Column("after", "after the fit", ".2f"),
)


@dataclass(frozen=True)
class MeasuredKernel:
    """A kernel with the seconds that it took."""

    case: str
    label: str
    kernel: Kernel
    seconds: float


def measured_kernels(results: Sequence[BenchResult]) -> list[MeasuredKernel]:
    """The kernels of saved runs that can be predicted again: correct, timed, and known here."""
    found = []
    for result in results:
        machine = MACHINES.get(str((result.machine.get("gpu") or {}).get("target", "")))
        if machine is None:
            continue
        for case in result.results:
            for entry in case.entries:
                if entry.status != "ok" or not entry.median or "algorithm" not in entry.facts:
                    continue
                kernel = _kernel(entry.facts, machine)
                if kernel is not None:
                    found.append(MeasuredKernel(case.name, entry.label, kernel, entry.median))
    return found


def _kernel(facts: Mapping[str, Any], machine: CudaMachine) -> Kernel | None:
    """None where this version has no such kernel."""
    config = Config.from_json(facts["knobs"])
    kernel = Kernel(
        Conv2dWorkload.parse(facts["workload"]), machine, str(facts["algorithm"]), config
    )
    try:
        return kernel if kernel.predicted_cycles > 0 else None
    except (TvmconvError, KeyError, AssertionError):
        return None


def with_factors(machine: CudaMachine, factors: Mapping[str, float]) -> CudaMachine:
    """A machine model with some figures multiplied."""
    changed: dict[str, Any] = {n: getattr(machine, n) * factor for n, factor in factors.items()}
    return replace(machine, **changed)


def fit(rows: Sequence[MeasuredKernel]) -> dict[str, float]:
    """The factors with the smallest mean error of logarithms, by descent along one at a time.

    Raises :class:`InputError` if there are too few kernels for so many factors.
    """
    if len(rows) < _FEWEST:
        raise InputError(
            f"fit of GPU constants: {len(rows)} measured kernels. Expected at least {_FEWEST}. "
            "Name more reports."
        )
    return descend(
        dict.fromkeys(FACTORS, 1.0),
        lambda factors: _loss(rows, factors),
        lambda _, factor: 1.0 / _RANGE <= factor <= _RANGE,
    )


def ratios(rows: Sequence[MeasuredKernel], factors: Mapping[str, float]) -> list[float]:
    """Predicted over measured seconds of each kernel."""
    found = []
    for row in rows:
        machine = row.kernel.machine
        assert isinstance(machine, CudaMachine)
        machine = with_factors(machine, factors)
        cycles = replace(row.kernel, machine=machine).predicted_cycles
        found.append(cycles / machine.clock_hertz / row.seconds)
    return found


def _loss(rows: Sequence[MeasuredKernel], factors: Mapping[str, float]) -> float:
    return fmean(huber(log(ratio), _FAR) for ratio in ratios(rows, factors))


def fit_report(
    results: Sequence[BenchResult], tell: Callable[[str], None] = lambda _: None
) -> Report:
    """Fit to saved runs, and count the correct predictions before and after.

    Predictions of kernels that the fit has seen prove little. So it is also repeated with each half
    of the kernels, to predict the other half. Raises :class:`InputError` if the runs hold too few
    kernels of GPUs.
    """
    rows = measured_kernels(results)
    factors = fit(rows)
    tell(f"fitted to {len(rows)} kernels")
    before, after = ratios(rows, dict.fromkeys(FACTORS, 1.0)), ratios(rows, factors)
    unseen: list[float] = []
    if len(rows) >= 2 * _FEWEST:
        for odd in (0, 1):
            half = fit(rows[odd::2])
            unseen += ratios(rows[1 - odd :: 2], half)
    first = rows[0].kernel.machine
    assert isinstance(first, CudaMachine)
    fitted = with_factors(first, factors)
    gpus = {str((r.machine.get("gpu") or {}).get("name", "")) for r in results} - {""}
    return Report(
        kind="bench-fit",
        title=f"{share_right(after):.0%} of {len(rows)} kernels within {RIGHT_WITHIN:.0%}",
        facts={
            "gpu": ", ".join(sorted(gpus)),
            "kernels": len(rows),
            "share_right_before": share_right(before),
            "share_right_after": share_right(after),
            "share_right_unseen": share_right(unseen) if unseen else None,
            "geometric_mean_before": exp(fmean(map(log, before))),
            **{f"factor_{name}": factor for name, factor in factors.items()},
            **{f"fitted_{name}": getattr(fitted, name) for name in FACTORS},
        },
        tables=(
            Table(
                "kernels",
                "Predicted and measured",
                _COLUMNS,
                [
                    {
                        "case": row.case,
                        "contender": row.label,
                        "measured_seconds": row.seconds,
                        "before": b,
                        "after": a,
                    }
                    for row, b, a in zip(rows, before, after, strict=True)
                ],
            ),
        ),
    )
