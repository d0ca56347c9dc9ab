"""The suites and the other libraries that ``bench`` knows."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.lab import baselines as baseline_table
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.worker_process import Implementation
from tvmconv.measuring import suites as suite_files
from tvmconv.report.document import Report
from tvmconv.report.table import Table, plain


def list_report(baseline_python: Sequence[str] = ()) -> Report:
    """The suites, and the baselines with their installed versions."""
    from tvmconv.lab.bench.rounds import Workers

    suites = [
        {"suite": name, "layers": len(suite_files.load_problems(name))}
        for name in suite_files.names()
    ]
    plan = make_plan(baseline_python=baseline_python)
    implementations = [
        Implementation(name, baseline.module, plan.python(name))
        for name, baseline in baseline_table.BASELINES.items()
    ]
    with Workers(implementations, 1, ()) as workers:
        workers.hello()
        versions, absent = workers.versions, workers.absent
    baselines = [
        {
            "baseline": name,
            "package": baseline.distribution,
            "version": versions.get(name, "absent"),
            "measures": " and ".join(
                kind for kind in ("models", "layers", "products") if getattr(baseline, kind)
            ),
            "message": absent.get(name, ""),
        }
        for name, baseline in baseline_table.BASELINES.items()
    ]
    keys = ("baseline", "package", "version", "measures", "message")
    return Report(
        kind="bench-list",
        title="What bench can measure",
        tables=(
            Table("suites", "Suites", plain("suite", "layers"), suites),
            Table("baselines", "Baselines", plain(*keys), baselines),
        ),
    )
