"""One case of a plan: its files, its reference, and the rounds of all contenders."""

from __future__ import annotations

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

# values of a layer's output that are compared on GPUs, whose batches are large
_PLACES = 4096


def measure_case(
    plan: Plan,
    contest: Field,
    case: tuple[Path, int] | suite_files.Layer | suite_files.Product,
) -> CaseResult:
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
        w, threads = case.workload, contest.threads
        kind = "layer" if isinstance(case, suite_files.Layer) else "product"
        return CaseResult(case.name, kind, str(w), w.flops, case.count, threads, (), reason)
    with tempfile.TemporaryDirectory(prefix="tvmconv-bench-") as name:
        folder = Path(name)
        options: dict[str, Any] = {"precision": plan.precision}
        if isinstance(case, tuple):
            path, batch = case
            if batch:
                path = batched_model(path, batch, folder)
            info = write_model_case(folder, path, plan.shapes, plan.fold_budget)
            if batch:
                info = replace(info, name=f"{info.name} mb{batch}")
            if gpu:
                # of a device's calls one by one, as a program makes them
                options |= {"clock": "host", "fixed": plan.shapes is None}
            reference = peer_table.PEERS["onnxruntime"]
            write_reference(
                Contender("reference", reference.module, plan.python("onnxruntime")),
                folder,
                exact=is_quantised(path),
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
