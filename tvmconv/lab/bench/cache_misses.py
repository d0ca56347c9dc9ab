"""``tvmconv dev cache-misses``: our kernels' cache misses by stage, simulated."""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.core.errors import InputError
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.plan import BenchPlan
from tvmconv.lab.bench.variants import layer_kernels, parse_variants
from tvmconv.lab.estimation.cachegrind import Misses, check_cachegrind, stage_misses
from tvmconv.machines.targets import resolve_machine
from tvmconv.report.document import Report
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

_ALL = "whole call"
_COLUMNS = (
    *plain("case"),
    IMPLEMENTATION,
    *plain("schedule", "stage"),
    Column("references", "references", ",d"),
    Column("first", "L1 misses", ",d"),
    Column("share", "L1 miss %", ".2f", 100),
    Column("second", "L2 misses", ",d"),
)


def cache_misses(plan: BenchPlan, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Simulate the cache accesses of a plan's layers, on one thread.

    Raises :class:`InputError` if the plan holds something other than layers, and
    :class:`ArtifactError` if valgrind is missing, or cannot execute the target's instructions.
    """
    if plan.models or plan.products or not plan.layers:
        raise InputError("cache-misses requires layers. Add --suite NAME or --layer PROBLEM.")
    machine = resolve_machine(plan.target, 1)
    check_cachegrind(machine)
    variants = parse_variants(plan.algorithms, [x.workload for x in plan.layers], machine)
    rows = []
    for layer in plan.layers:
        found = layer_kernels(layer.workload, machine, variants, plan.log)
        kernels = {label: k for label, k in found.items() if isinstance(k, Kernel)}
        for label, kernel in kernels.items():
            stages = stage_misses(kernel)
            whole = sum(stages.values(), Misses())
            both = {**stages, _ALL: whole} if len(stages) > 1 else {_ALL: whole}
            rows += [
                {
                    "case": layer.name,
                    "contender": label,
                    "schedule": f"{kernel.algorithm} {kernel.config}",
                    "stage": stage,
                    "references": misses.references,
                    "first": misses.first,
                    "share": misses.first / max(misses.references, 1),
                    "second": misses.second,
                }
                for stage, misses in both.items()
            ]
        tell(f"{layer.name}: {len(kernels)} kernels")
    note = (
        f"Cachegrind's caches: {machine.l1d_bytes >> 10} and {machine.l2_bytes >> 10} KiB, without "
        "prefetches by the processor. One call; a load of a vector is one reference."
    )
    table = Table("misses", "Cache misses", _COLUMNS, rows)
    return Report("cache misses", "Cache misses", tables=(table,), notes=(note,))
