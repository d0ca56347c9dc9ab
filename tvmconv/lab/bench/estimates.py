"""``tvmconv bench run --estimate``: cycles of our algorithms and builds, estimated from counts."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.errors import InputError, WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.gemm import make_gemm
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.baselines import BASELINES
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
from tvmconv.measuring.suites import Layer
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

_COLUMNS = (
    Column("case", "case"),
    Column("label", "contender"),
    Column("estimated_cycles", "est. cycles", ",.0f"),
    Column("estimated_seconds", "est. ms", ".3f", 1e3),
    Column("over_least", "x least", ".2f"),
    Column("instructions", "instructions", ","),
    Column("instructions_per_needed", "instr. per needed mul.-add", ".2f"),
    Column("estimated_peak_share", "est. % of peak", ".1f", 100),
    Column("info", "schedule, or why not"),
)
_TOTALS = (
    Column("label", "contender"),
    Column("cases", "cases"),
    Column("estimated_cycles", "est. cycles", ",.0f"),
    Column("estimated_seconds", "est. ms", ".3f", 1e3),
)


@dataclass(frozen=True)
class EstimatedEntry:
    """One implementation on one case, which occurs ``count`` times.

    ``problem`` and ``flops`` are empty and 0 for a model. ``cost`` is None without an estimate;
    ``info`` has the schedule, or why there is none.
    """

    case: str
    count: int
    problem: str
    flops: int
    label: str
    cost: Cost | None
    info: str = ""


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
    machine = resolve_machine(plan.target, 1)
    baselines = emulated_baselines(plan, machine)
    entries = [
        *_layers(plan, machine, [p for p in baselines if p.baseline.layers], tell),
        *_products(plan, machine, [p for p in baselines if p.baseline.products], tell),
        *_models(plan, machine, [p for p in baselines if p.baseline.models], tell),
    ]
    return estimates_report(entries, core_of(machine))


def _layers(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedEntry]:
    workloads = [layer.workload for layer in plan.layers]
    variants = parse_variants(plan.algorithms, workloads, machine) if workloads else ()
    for layer in plan.layers:
        kernels = layer_kernels(layer.workload, machine, variants, plan.log)
        distinct = list(dict.fromkeys(k for k in kernels.values() if isinstance(k, Kernel)))
        estimate = estimate_kernels(distinct)
        costs = dict(zip(distinct, (found.cost for found in estimate.layers), strict=True))
        for label, kernel in kernels.items():
            if isinstance(kernel, Kernel):
                yield _entry(layer, label, costs[kernel], f"{kernel.algorithm} ({kernel.config})")
            else:
                yield _entry(layer, label, None, str(kernel))
        if baselines:
            with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
                write_layer_case(Path(folder), layer.workload)
                for label, cost, info in _baseline_rows(baselines, Path(folder)):
                    yield _entry(layer, label, cost, info)
        best, least = min(costs.items(), key=lambda item: item[1].cycles)
        tell(f"{layer.name}: minimum {least.cycles:,.0f} cycles estimated, {best.algorithm}")


def _entry(layer: Layer, label: str, cost: Cost | None, info: str) -> EstimatedEntry:
    workload = layer.workload
    return EstimatedEntry(layer.name, layer.count, str(workload), workload.flops, label, cost, info)


def _products(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedEntry]:
    """Matrix products: B packed in the call, as baselines do, and packed before."""
    for product in plan.products:
        w = product.workload
        kernels = [make_gemm(w, machine, prepacked=prepacked) for prepacked in PRODUCTS.values()]
        costs = [layer.cost for layer in estimate_kernels(kernels).layers]
        rows: list[tuple[str, Cost | None, str]] = [
            (f"{OWN} {label}", cost, f"gemm ({kernel.config})")
            for label, cost, kernel in zip(PRODUCTS, costs, kernels, strict=True)
        ]
        if baselines:
            with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
                write_gemm_case(Path(folder), w)
                rows += _baseline_rows(baselines, Path(folder))
        for label, cost, info in rows:
            yield EstimatedEntry(product.name, product.count, str(w), w.flops, label, cost, info)
        tell(f"{product.name}: {costs[0].cycles:,.0f} cycles estimated")


def _models(
    plan: BenchPlan,
    machine: Machine,
    baselines: Sequence[EmulatedBaseline],
    tell: Callable[[str], None],
) -> Iterator[EstimatedEntry]:
    import tvmconv

    for path in plan.models:
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
        yield EstimatedEntry(path.stem, 1, "", 0, OWN, cost)
        if baselines:
            with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
                case = write_model_case(Path(folder), path, plan.shapes, plan.fold_budget)
                write_reference(_reference(plan), Path(folder), exact=case.quantized)
                for label, found, info in _baseline_rows(baselines, Path(folder), case.quantized):
                    yield EstimatedEntry(path.stem, 1, "", 0, label, found, info)
        tell(f"{path.stem}: {cost.cycles:,.0f} cycles estimated")


def _reference(plan: BenchPlan) -> Implementation:
    """onnxruntime on this CPU, also for baselines of an emulated interpreter."""
    python = plan.pythons.get("onnxruntime") or sys.executable
    return Implementation("reference", BASELINES["onnxruntime"].module, python)


def _baseline_rows(
    baselines: Sequence[EmulatedBaseline], folder: Path, quantized: bool = False
) -> Iterator[tuple[str, Cost | None, str]]:
    """Label, cost, and version and algorithm of each baseline on a case, or why it has no cost."""
    for baseline in baselines:
        found = baseline.count(folder, quantized)
        if found.section is None:
            yield baseline.baseline.name, None, f"{found.status}: {found.message}"
            continue
        (cost,) = section_costs([found.section], core_of(baseline.machine), baseline.machine.triple)
        algorithm = f", {found.info}" if found.info else ""
        yield baseline.baseline.name, cost, f"{found.version}, error {found.error:.0e}{algorithm}"


def estimates_report(entries: list[EstimatedEntry], core: Core) -> Report:
    """The table of estimates, with the method.

    ``entries`` of one case are consecutive.
    """
    least: dict[tuple[str, str], float] = {}
    for entry in entries:
        if entry.cost is not None:
            key, cycles = (entry.case, entry.problem), entry.cost.cycles
            least[key] = min(least.get(key, cycles), cycles)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        row = {
            "case": entry.case,
            "count": entry.count,
            "workload": entry.problem,
            "label": entry.label,
            "info": entry.info,
        }
        if entry.cost is not None:
            row |= cost_row(core, entry.cost, entry.flops, _types(entry.problem))
            row["over_least"] = entry.cost.cycles / (least[entry.case, entry.problem] or 1.0)
        rows.append(row)
    return Report(
        kind="bench-estimate",
        title=f"Estimated, not measured: {core.name}, one thread, {len(least)} cases",
        facts={
            "target": core.name,
            "estimated_at": core.clock_text,
            "estimate_method": described_method(core),
        },
        tables=(
            Table("estimates", "Estimates", _COLUMNS, rows),
            Table(
                "totals", "Estimates of all cases, as often as they occur", _TOTALS, _totals(rows)
            ),
        ),
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


def _types(problem: str) -> DataTypes:
    """Types of a convolution's problem string; FP32 for others."""
    try:
        return Conv2dWorkload.parse(problem).types
    except WorkloadError:
        return FLOAT32
