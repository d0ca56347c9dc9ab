"""The implementations of a bench: the peak, our builds or algorithms, and the baselines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tvmconv.lab import baselines as baseline_table
from tvmconv.lab.bench.result import OWN, PEAK
from tvmconv.lab.bench.variants import parse_variants
from tvmconv.lab.bench.worker_process import Implementation
from tvmconv.machines.targets import resolve_device

if TYPE_CHECKING:
    from tvmconv.lab.bench.plan import BenchPlan


# labels of our matrix product, and whether B is packed before the calls
PRODUCTS = {"gemm": False, "gemm, B packed before": True}


def implementations(plan: BenchPlan, kind: str) -> list[Implementation]:
    """The columns for ``models``, ``layers``, ``products`` or ``poolings``, which are models.

    Ours and the peak are first.
    """
    if kind == "poolings":
        kind = "models"
    device = resolve_device(plan.target).kind
    given = (("target", plan.target), *([("kernels", plan.kernels)] if plan.kernels else []))
    modules = baseline_table.OWN_OF_KIND[device]

    def own(label: str, group: str, **options: Any) -> Implementation:
        module = modules[OWN].module
        return Implementation(label, module, sys.executable, (*given, *options.items()), group)

    found = (
        [] if plan.streams else [Implementation(PEAK, modules[PEAK].module, sys.executable, given)]
    )
    if kind == "products":
        for label, prepacked in PRODUCTS.items():
            found.append(own(f"{OWN} {label}", f"{OWN} gemm", prepacked=prepacked))
    elif kind == "models":
        names = build_algorithms(plan)
        found += [
            own(label, OWN, algorithms=names, log=log, fold_budget=plan.fold_budget)
            for label, log in builds(plan)
        ]
        if plan.relax_pass:
            found.append(
                own(f"{OWN} relax", f"{OWN} relax", algorithms=names, log=plan.log, relax=True)
            )
    elif plan.log and not plan.algorithms:
        found += [own(label, OWN, log=log) for label, log in builds(plan)]
    else:
        workloads = [layer.workload for layer in plan.layers]
        machine = resolve_device(plan.target)
        for variant in parse_variants(plan.algorithms, workloads, machine, plan.precision):
            group = f"{OWN} {variant.algorithm}"
            found.append(own(f"{OWN} {variant}", group, variant=variant.to_json()))
    for name in plan.baselines:
        baseline = baseline_table.OF_KIND[device][name]
        if getattr(baseline, kind):
            found.append(Implementation(name, baseline.module, plan.python(name)))
    return found


def build_algorithms(plan: BenchPlan) -> list[str] | None:
    """The algorithms that builds of models may choose from."""
    return [name.strip() for name in plan.algorithms.split(",")] if plan.algorithms else None


def builds(plan: BenchPlan) -> list[tuple[str, str | None]]:
    """Labels and logs of the builds to compare."""
    if plan.log in (None, "none"):
        return [(OWN, plan.log)]
    return [(f"{OWN} untuned", "none"), (f"{OWN} tuned", plan.log)]
