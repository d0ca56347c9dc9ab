"""``tvmconv bench run --estimate``: cycles of our algorithms and builds, estimated from counts."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.errors import InputError
from tvmconv.kernels.gemm import make_gemm
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.baselines import BASELINES
from tvmconv.lab.bench.case_files import CaseInfo
from tvmconv.lab.bench.cases import write_layer_case, write_model_case
from tvmconv.lab.bench.emulated_baselines import EmulatedBaseline, emulated_baselines
from tvmconv.lab.bench.gemm_run import write_gemm_case
from tvmconv.lab.bench.implementations import PRODUCTS, build_algorithms
from tvmconv.lab.bench.plan import BenchPlan
from tvmconv.lab.bench.result import OWN
from tvmconv.lab.bench.rounds import write_reference
from tvmconv.lab.bench.variants import layer_kernels, parse_variants
from tvmconv.lab.bench.worker_process import Implementation
from tvmconv.lab.estimation.cores import Core, core_of
from tvmconv.lab.estimation.estimate import Cost, described_method, estimate_model, section_costs
from tvmconv.lab.estimation.kernels import estimate_kernels
from tvmconv.lab.estimation.report import cost_row
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, plain

_COLUMNS = (
    Column("case", "case"),
    Column("label", "implementation"),
    Column("estimated_cycles", "est. cycles", ",.0f"),
    Column("estimated_seconds", "est. ms", ".3f", 1e3),
    Column("over_least", "x least", ".2f"),
    Column("instructions", "instructions", ","),
    Column("instructions_per_needed", "instr. per needed mul.-add", ".2f"),
    Column("estimated_peak_share", "est. % of peak", ".1f", 100),
    Column("info", "schedule, or why not"),
)
_TOTALS = (_COLUMNS[1], *plain("cases"), *_COLUMNS[2:4])


# label, cost, and schedule; or label, None, and the reason
Estimates = list[tuple[str, Cost | None, str]]


@dataclass(frozen=True)
class EstimatedCase:
    """The estimates of a layer, product or model, which occurs ``count`` times."""

    name: str
    estimates: Estimates
    count: int = 1
    problem: str = ""
    flops: int = 0
    types: DataTypes = FLOAT32

    def rows(self, core: Core) -> list[dict[str, Any]]:
        """Rows of the table of estimates."""
        least = min((cost.cycles for _, cost, _ in self.estimates if cost), default=0.0)
        head = {"case": self.name, "count": self.count, "workload": self.problem}
        rows = []
        for label, cost, info in self.estimates:
            row = {**head, "label": label, "info": info}
            if cost is not None:
                row |= cost_row(core, cost, self.flops, self.types)
                row["over_least"] = cost.cycles / (least or 1.0)
            rows.append(row)
        return rows


def estimate_plan(plan: BenchPlan, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Estimate the measurements of a plan; ``tell`` is called with one line after every case.

    Raises :class:`InputError` if the plan asks for figures that estimates do not have, and
    :class:`ArtifactError` if tools are missing.
    """
    if plan.threads != (1,):
        most = max(plan.threads)
        raise InputError(f"--estimate supports one thread, got {most}. Leave out --threads.")
    extras = plan.extras
    if extras.stages or extras.cold_bytes or extras.memory or extras.load or plan.relax_pass:
        raise InputError(
            "--estimate supports whole calls only. Leave out --stages, --cold, --memory, --load "
            "and --relax-pass."
        )
    if plan.nchw or plan.fits or plan.poolings:
        raise InputError(
            "--estimate supports convolutions in their own layouts and batches. Leave out --nchw, "
            "--batch fit:N and poolings."
        )
    machine = resolve_machine(plan.target, 1)
    baselines = emulated_baselines(plan, machine)
    cases = [
        *_layers(plan, machine, [b for b in baselines if b.baseline.layers], tell),
        *_products(plan, machine, [b for b in baselines if b.baseline.products], tell),
        *_models(plan, machine, [b for b in baselines if b.baseline.models], tell),
    ]
    return _report(cases, core_of(machine))


def _layers(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedCase]:
    workloads = [layer.workload for layer in plan.layers]
    variants = parse_variants(plan.algorithms, workloads, machine) if workloads else ()
    for layer in plan.layers:
        w = layer.workload
        kernels = layer_kernels(w, machine, variants, plan.log)
        distinct = list(dict.fromkeys(k for k in kernels.values() if isinstance(k, Kernel)))
        estimate = estimate_kernels(distinct)
        costs = dict(zip(distinct, (found.cost for found in estimate.layers), strict=True))
        found: Estimates = [
            (label, costs[kernel], f"{kernel.algorithm} ({kernel.config})")
            if isinstance(kernel, Kernel)
            else (label, None, str(kernel))
            for label, kernel in kernels.items()
        ]
        found += _baselines(baselines, partial(write_layer_case, workload=w))
        yield EstimatedCase(layer.name, found, layer.count, str(w), w.flops, w.types)
        best, least = min(costs.items(), key=lambda item: item[1].cycles)
        tell(f"{layer.name}: minimum {least.cycles:,.0f} cycles estimated, {best.algorithm}")


def _products(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedCase]:
    """Matrix products: B packed in the call, as baselines do, and packed before."""
    for product in plan.products:
        w = product.workload
        kernels = [make_gemm(w, machine, prepacked=prepacked) for prepacked in PRODUCTS.values()]
        costs = [layer.cost for layer in estimate_kernels(kernels).layers]
        found: Estimates = [
            (f"{OWN} {label}", cost, f"gemm ({kernel.config})")
            for label, cost, kernel in zip(PRODUCTS, costs, kernels, strict=True)
        ]
        found += _baselines(baselines, partial(write_gemm_case, workload=w))
        yield EstimatedCase(product.name, found, product.count, str(w), w.flops)
        tell(f"{product.name}: {costs[0].cycles:,.0f} cycles estimated")


def _models(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedCase]:
    import tvmconv

    # on this CPU, also for baselines of an emulated interpreter
    python = plan.pythons.get("onnxruntime") or sys.executable
    reference = Implementation("reference", BASELINES["onnxruntime"].module, python)

    for path in plan.models:

        def write(folder: Path, path: Path = path) -> CaseInfo:
            case = write_model_case(folder, path, plan.shapes, plan.fold_budget)
            write_reference(reference, folder, exact=case.quantized)
            return case

        with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
            model = tvmconv.build(
                path,
                machine,
                threads=1,
                shapes=plan.shapes,
                algorithms=build_algorithms(plan),
                log=plan.log,
                fold_budget=plan.fold_budget,
            )
            cost = estimate_model(model.save(Path(folder) / "model.so")).total
        yield EstimatedCase(path.stem, [(OWN, cost, ""), *_baselines(baselines, write)])
        tell(f"{path.stem}: {cost.cycles:,.0f} cycles estimated")


def _baselines(
    baselines: Sequence[EmulatedBaseline], write: Callable[[Path], CaseInfo]
) -> Estimates:
    """The estimates of baselines, with versions and algorithms, on a case that is written."""
    rows: Estimates = []
    if not baselines:
        return rows
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        case = write(Path(folder))
        for baseline in baselines:
            name, machine = baseline.baseline.name, baseline.machine
            found = baseline.count(Path(folder), case.quantized)
            if found.section is None:
                rows.append((name, None, f"{found.status}: {found.message}"))
                continue
            (cost,) = section_costs([found.section], core_of(machine), machine.triple)
            algorithm = f", {found.info}" if found.info else ""
            rows.append((name, cost, f"{found.version}, error {found.error:.0e}{algorithm}"))
    return rows


def _report(cases: Sequence[EstimatedCase], core: Core) -> Report:
    rows = [row for case in cases for row in case.rows(core)]
    totals = Table(
        "totals", "Estimates of all cases, as often as they occur", _TOTALS, _totals(rows)
    )
    return Report(
        kind="bench-estimate",
        title=f"Estimated, not measured: {core.name}, one thread, {len(cases)} cases",
        facts={
            "target": core.name,
            "estimated_at": core.clock_text,
            "estimate_method": described_method(core),
        },
        tables=(Table("estimates", "Estimates", _COLUMNS, rows), totals),
    )


def _totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sums of the implementations that have an estimate of every case."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if "estimated_cycles" not in row:
            continue
        total = found.setdefault(
            row["label"],
            {"label": row["label"], "cases": 0, "estimated_cycles": 0.0, "estimated_seconds": 0.0},
        )
        total["cases"] += row["count"]
        for key in ("estimated_cycles", "estimated_seconds"):
            total[key] += row["count"] * row[key]
    most = max((total["cases"] for total in found.values()), default=0)
    whole = [total for total in found.values() if total["cases"] == most]
    return sorted(whole, key=lambda total: float(total["estimated_cycles"]))
