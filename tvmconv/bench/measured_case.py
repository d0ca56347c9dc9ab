"""One case of a plan: its files, its reference, and the rounds of all contenders."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.bench import peers as peer_table
from tvmconv.bench import suites as suite_files
from tvmconv.bench.result import CaseResult
from tvmconv.bench.worker_process import Contender

if TYPE_CHECKING:
    from tvmconv.bench.plan import Plan
    from tvmconv.bench.rounds import Field

Case = tuple[Path, int] | suite_files.Layer | suite_files.Product

# values of a layer's output that are compared on GPUs, whose batches are large
_PLACES = 4096


def measure_case(plan: Plan, contest: Field, case: Case) -> CaseResult:
    """Measure a model at a batch size (0 for its own), a layer or a product.

    Raises
    ------
    TvmconvError
        If a model cannot be read or has no reference.
    """
    from tvmconv.bench.case_memory import too_large
    from tvmconv.bench.cases import batched_model, write_layer_case, write_model_case
    from tvmconv.bench.quantised import is_quantised
    from tvmconv.bench.rounds import write_reference

    labels = [lane.label for lane in contest.workers]
    gpu = plan.on_gpu
    if not gpu and not isinstance(case, tuple) and (reason := too_large(case.workload, labels)):
        return skipped_case(case, contest.threads, reason)
    with tempfile.TemporaryDirectory(prefix="tvmconv-bench-") as name:
        folder = Path(name)
        options: dict[str, Any] = {"precision": plan.precision}
        if isinstance(case, tuple):
            path, batch = case
            if batch:
                path = batched_model(path, batch, folder)
            info = write_model_case(folder, path, plan.shapes, plan.fold_budget)
            if batch:
                info = replace(info, name=batch_name(info.name, batch))
            if gpu:
                # of a device's calls one by one, as a program makes them
                options |= {"clock": "host", "fixed": plan.shapes is None}
            reference = peer_table.PEERS["onnxruntime"]
            write_reference(
                Contender("reference", reference.module, plan.python("onnxruntime")),
                folder,
                exact=is_quantised(path),
                threads=len(os.sched_getaffinity(0)) if gpu else 1,
            )
        elif isinstance(case, suite_files.Product):
            from tvmconv.bench.gemm_run import write_gemm_case

            info = write_gemm_case(folder, case.workload, case.name, case.count)
            options["product"] = str(case.workload)
        else:
            places = _PLACES if gpu else 0
            info = write_layer_case(folder, case.workload, case.name, case.count, places)
            options["workload"] = str(case.workload)
        return contest.measure(folder, info, plan.rounds, plan.seconds, options)


def skipped_case(case: Case, threads: int, reason: str) -> CaseResult:
    """A case of which nothing was measured, and why."""
    if isinstance(case, tuple):
        path, batch = case
        return CaseResult(
            batch_name(path.stem, batch), "model", path.name, 0, 1, threads, (), reason
        )
    w = case.workload
    kind = "layer" if isinstance(case, suite_files.Layer) else "product"
    return CaseResult(case.name, kind, str(w), w.flops, case.count, threads, (), reason)


def case_names(plan: Plan) -> list[str]:
    """The cases of a plan; models by their files, which mostly are named as what they hold."""
    models = [
        batch_name(path.stem, batch) for batch in plan.batches or (0,) for path in plan.models
    ]
    return [*(layer.name for layer in plan.layers), *(p.name for p in plan.products), *models]


def batch_name(name: str, batch: int) -> str:
    """A model's name at a batch size, 0 for its own."""
    return f"{name} mb{batch}" if batch else name
