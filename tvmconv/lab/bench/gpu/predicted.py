"""``bench run --estimate`` for GPUs: predictions of the cost model for layers and models.

Nothing runs, and neither a GPU nor nvcc is needed. Rates come from the machine model and from the
cost model's constants.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.core.errors import ConfigError, InputError
from tvmconv.costs.cuda.memory import least_cycles, peak_rate
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.implementations import build_algorithms
from tvmconv.lab.bench.memory_tables import method_rows, tables_of
from tvmconv.lab.bench.result import OWN
from tvmconv.lab.bench.variants import layer_kernels, parse_variants
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.targets import resolve_device
from tvmconv.report.document import Report
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

if TYPE_CHECKING:
    from tvmconv.lab.bench.plan import BenchPlan
    from tvmconv.measuring.suites import Layer

NOT_MEASURED = "not measured"
_COLUMNS = (
    *plain("case"),
    IMPLEMENTATION,
    *plain("precision"),
    Column("measured", "ms"),
    Column("predicted_seconds", "predicted ms", ".4f", 1e3),
    Column("gflops", "pred. GFLOP/s", ",.0f"),
    Column("peak_share", "pred. % of peak", ".1f", 100),
    Column("limit_share", "pred. % of limit", ".1f", 100),
    Column("over_least", "x least", ".2f"),
    Column("parts", "of which"),
    Column("schedule", "schedule, or why not"),
)
_MODELS = (
    *plain("case", "convolutions"),
    Column("measured", "ms"),
    Column("predicted_seconds", "predicted ms of convolutions", ".3f", 1e3),
    Column("peak_share", "pred. % of peak", ".1f", 100),
)
METHOD = (
    "Predicted, not measured: cycles counted from instructions, waves of blocks and bytes, at the "
    "record's boost clock, with constants that are assumed where no fit is named. Operands in the "
    "GPU's memory, every array read and written once. The limit is the longer of all multiply-adds "
    "of direct convolution at the peak and of all arrays through memory; Winograd may pass it. The "
    "peak is that of float32, or of what the row's precision does on tensor cores."
)


def predict_plan(plan: BenchPlan, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Predict the measurements of a plan; ``tell`` is called with one line after every case.

    Raises :class:`InputError` if the target is not a GPU.
    """
    machine = resolve_device(plan.target)
    if not isinstance(machine, CudaMachine):
        raise InputError(f"{plan.target} is not a GPU. Name one, for example --target cuda:sm_90.")
    workloads = [layer.workload for layer in plan.layers]
    # as in a measurement: with a log and without algorithms, builds alone
    alone = not workloads or (plan.log and not plan.algorithms)
    variants = () if alone else parse_variants(plan.algorithms, workloads, machine, plan.precision)
    kernels = [
        (layer, layer_kernels(layer.workload, machine, variants, plan.log, plan.precision))
        for layer in plan.layers
    ]
    rows = list(_layers(kernels, tell))
    models = [
        _model(path, batch, plan, machine) for batch in plan.batches or (0,) for path in plan.models
    ]
    tables = [Table("predictions", "Layers", _COLUMNS, rows)] if rows else []
    if plan.extras.memory:
        tables += tables_of([_memory(layer, found) for layer, found in kernels])
    tables += (
        [Table("models", "Models, their convolutions alone", _MODELS, models)] if models else []
    )
    return Report(
        kind="bench-prediction",
        title=f"Predicted, not measured: {machine.described}",
        facts={
            "target": machine.name,
            "gpu": machine.model,
            "peak_gflops": peak_flops(machine) * 1e-9,
            "memory_gbs": machine.memory_rate * machine.clock_hertz * 1e-9,
            "rates_origin": machine.rates_origin,
            "method": METHOD,
        },
        tables=tuple(tables),
        notes=(METHOD,),
    )


def peak_flops(machine: CudaMachine, precision: str = "") -> float:
    """Operations a second at the clock of the machine model, two for each FMA.

    In FP32, or of ``mma.sync`` in a precision.
    """
    return 2.0 * peak_rate(machine, precision) * machine.clock_hertz


def _layers(
    kernels: Sequence[tuple[Layer, Mapping[str, Kernel | ConfigError]]],
    tell: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    for layer, implementations in kernels:
        found = {
            label: _row(layer, label, kernel)
            if isinstance(kernel, Kernel)
            else {**_head(layer, label), "schedule": str(kernel)}
            for label, kernel in implementations.items()
        }
        times = [row["predicted_seconds"] for row in found.values() if "predicted_seconds" in row]
        least = min(times)
        for row in found.values():
            if "predicted_seconds" in row:
                row["over_least"] = row["predicted_seconds"] / least
            yield row
        tell(f"{layer.name}: {least * 1e3:.4f} ms predicted, {found[OWN]['schedule']}")


def _memory(layer: Layer, found: Mapping[str, Kernel | ConfigError]) -> list[dict[str, Any]]:
    """Bytes of weights and buffers of the kernels."""
    methods = []
    for label, kernel in found.items():
        if isinstance(kernel, Kernel):
            given = (kernel.workload, kernel.machine, kernel.config)
            weights = kernel.expression.packed_weight_bytes(*given)
            methods.append((label, weights, kernel.expression.workspace_bytes(*given), None))
    return method_rows(layer.name, layer.workload, methods)


def _head(layer: Layer, label: str) -> dict[str, Any]:
    return {
        "case": layer.name,
        "problem": str(layer.workload),
        "count": layer.count,
        "contender": label,
        "measured": NOT_MEASURED,
    }


def _row(layer: Layer, label: str, kernel: Kernel) -> dict[str, Any]:
    machine, workload = kernel.machine, kernel.workload
    assert isinstance(machine, CudaMachine)
    cost = registry.explain_cost(kernel.algorithm, workload, machine, kernel.config)
    cycles = kernel.predicted_cycles
    seconds = cycles / machine.clock_hertz
    precision = kernel.expression.precision(kernel.config)
    shares = {part: each / cycles for part, each in cost.items()}
    return {
        **_head(layer, label),
        "predicted_seconds": seconds,
        "gflops": workload.flops / seconds * 1e-9,
        "peak_share": workload.flops / seconds / peak_flops(machine, precision),
        "limit_share": least_cycles(workload, machine, precision) / cycles,
        "parts": ", ".join(
            f"{part} {share:.0%}" for part, share in shares.items() if share >= 0.005
        ),
        "schedule": f"{kernel.algorithm} {kernel.config}",
        "algorithm": kernel.algorithm,
        "precision": precision or "float32",
        "knobs": kernel.config.to_json(),
    }


def _model(path: Path, batch: int, plan: BenchPlan, machine: CudaMachine) -> dict[str, Any]:
    """The convolutions of a model as a build would compute them."""
    from tvmconv.graph.prelude import plan_model
    from tvmconv.lab.bench.cases import batched_model
    from tvmconv.records.lookup import search_path
    from tvmconv.selection.policy import make_policy

    policy = make_policy(
        build_algorithms(plan), logs=search_path(plan.log), precision=plan.precision
    )
    shapes = dict(plan.shapes) if plan.shapes else None
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        model = batched_model(path, batch, Path(folder)) if batch else path
        planned = plan_model(model, machine, policy, shapes, plan.fold_budget)
    decisions = [d for each in planned for d in each.plan.decisions.values()]
    kernels = [
        Kernel(each.workload, machine, each.chosen.algorithm, each.chosen.config)
        for each in decisions
    ]
    seconds = sum(each.predicted_cycles for each in kernels) / machine.clock_hertz
    flops = sum(each.workload.flops for each in decisions)
    return {
        "case": path.stem + f" mb{batch}" * bool(batch),
        "convolutions": len(kernels),
        "measured": NOT_MEASURED,
        "predicted_seconds": seconds,
        "peak_share": flops / seconds / peak_flops(machine) if seconds else None,
    }
