"""``bench run --compile-only``: the kernels of a plan into a folder, for a machine with a GPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.core.errors import ArtifactError, ConfigError, InputError, TvmconvError
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.cases import batched_model
from tvmconv.lab.bench.gpu.models import built_model
from tvmconv.lab.bench.gpu.probes import SOURCE
from tvmconv.lab.bench.implementations import build_algorithms, builds
from tvmconv.lab.bench.variants import chosen_kernel, parse_variants
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.host import host_cores
from tvmconv.machines.targets import resolve_device
from tvmconv.measuring.gpu.compiled import KernelFolder, source_code
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

if TYPE_CHECKING:
    from tvmconv.lab.bench.plan import BenchPlan

# failed kernels that the final error names; the table has all
_NAMED = 3
_COLUMNS = (
    Column("workload", "layer"),
    Column("algorithm", "algorithm"),
    Column("config", "schedule"),
    Column("registers", "registers"),
    Column("spill_bytes", "spilled bytes"),
    Column("failure", "why not"),
)


def plan_kernels(plan: BenchPlan) -> list[Kernel]:
    """Every kernel that a plan's layers are measured with; fails as :func:`compile_plan`."""
    machine = resolve_device(plan.target)
    if not isinstance(machine, CudaMachine):
        raise InputError(
            f"--compile-only requires a GPU target, got {plan.target}. Use one such as --target "
            "cuda:sm_90."
        )
    workloads = [layer.workload for layer in plan.layers]
    found = []
    if plan.log and not plan.algorithms:
        for _, log in builds(plan):
            found += [chosen_kernel(each, machine, log, plan.precision) for each in workloads]
        return list(dict.fromkeys(found))
    for variant in parse_variants(plan.algorithms, workloads, machine, plan.precision):
        for workload in workloads:
            with suppress(ConfigError):
                found.append(variant.kernel(workload, machine))
    return list(dict.fromkeys(found))


def compile_plan(plan: BenchPlan, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Compile all kernels of a plan's layers in parallel, and the probes of a GPU's rates.

    Raises :class:`InputError` if the target is not a GPU, or the plan has no folder.
    """
    if not plan.kernels:
        raise InputError("--compile-only requires --kernels DIR")
    kernels = plan_kernels(plan)
    machine = resolve_device(plan.target)
    assert isinstance(machine, CudaMachine)
    source_code(SOURCE, machine, plan.kernels)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(host_cores(), get_context("spawn")) as pool:
        results = pool.map(_compiled, kernels, repeat(plan.kernels))
        for kernel, known in zip(kernels, results, strict=True):
            config = str(kernel.config)
            named = {"workload": str(kernel.workload), "algorithm": kernel.algorithm}
            rows.append({**named, "config": config, **known})
            tell(f"{kernel.workload} {kernel.algorithm} {config}: {known}")
    for path in plan.models:
        for batch in plan.batches or (0,):
            with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
                model = batched_model(path, batch, Path(folder)) if batch else path
                for _, log in builds(plan):
                    built_model(
                        model,
                        plan.target,
                        plan.shapes,
                        plan.kernels,
                        algorithms=build_algorithms(plan),
                        log=log,
                        fold_budget=plan.fold_budget,
                        precision=plan.precision,
                        here=False,
                    )
            tell(f"{path.stem}{f' mb{batch}' * bool(batch)}: built")
    failed = sum("failure" in row for row in rows)
    title = f"{len(rows) - failed} kernels compiled for {machine.name}, {failed} failed"
    return Report(
        kind="bench-compiled",
        title=title,
        facts={"folder": plan.kernels, "target": machine.name},
        tables=(Table("kernels", "Kernels", _COLUMNS, rows),),
    )


def check_compiled(report: Report) -> None:
    """Raise :class:`ArtifactError` with the first kernels of :func:`compile_plan` that failed."""
    rows = [row for table in report.tables for row in table.rows]
    failed = [row for row in rows if "failure" in row]
    if failed:
        named = "; ".join(map(failure_text, failed[:_NAMED]))
        more = f"; and {len(failed) - _NAMED} more" * (len(failed) > _NAMED)
        raise ArtifactError(f"{len(failed)} of {len(rows)} kernels failed: {named}{more}")


def failure_text(row: Mapping[str, Any]) -> str:
    """A kernel that did not compile, and why."""
    return f"{row['workload']} {row['algorithm']} {row['config']}: {row['failure']}"


def _compiled(kernel: Kernel, folder: str) -> dict[str, int | str]:
    """Registers and spills of a kernel, or why it does not compile."""
    try:
        compiled = KernelFolder(Path(folder)).get(kernel)
    except (TvmconvError, RuntimeError, ValueError) as error:
        return {"failure": " ".join(str(error).split())[:300]}
    return {
        "registers": max(each.registers for each in compiled.launches),
        "spill_bytes": compiled.spill_bytes,
    }
