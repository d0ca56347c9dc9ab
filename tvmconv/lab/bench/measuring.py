"""The run of a plan: files and reference of each case, and the rounds of all implementations."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmconv.core.errors import TvmconvError
from tvmconv.core.pool_workload import PoolWorkload
from tvmconv.lab import baselines as baseline_table
from tvmconv.lab.bench.implementations import implementations
from tvmconv.lab.bench.plan import BenchPlan
from tvmconv.lab.bench.result import BenchResult, CaseResult
from tvmconv.lab.bench.rounds import Workers, describe, write_reference
from tvmconv.lab.bench.worker_process import Implementation
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import host_cores
from tvmconv.machines.record import processor
from tvmconv.machines.targets import resolve_device
from tvmconv.measuring import suites as suite_files
from tvmconv.measuring.gpu.state import gpu_state, nvidia_smi
from tvmconv.measuring.host import host_header, pick_cpus

Case = tuple[Path, int] | suite_files.Problem

_SETTINGS = (
    *("target", "rounds", "seconds", "algorithms", "log", "fold_budget", "precision"),
    *("nchw", "fits"),
)
# compared values of the output of large layers
_PLACES = 4096


def run_plan(
    plan: BenchPlan,
    tell: Callable[[str], None] = lambda _: None,
    checkpoint: Callable[[BenchResult], None] = lambda _: None,
) -> BenchResult:
    """Measure everything; layers and models each with their own implementations.

    ``tell`` is called with one line after every case, ``checkpoint`` with all results so far, so
    that a long run can be stored. Raises :class:`TvmconvError` if this CPU cannot run code for the
    target, or a model cannot be read or has no reference. On a GPU, such a model is a case without
    entries. Failures of implementations are recorded.
    """
    header = host_header()
    if plan.on_gpu:
        header["gpu"] = gpu_state(plan.target)
    else:
        ensure_machine(processor(resolve_device(plan.target)), "a benchmark kernel")
    settings = {
        "cases": case_names(plan),
        "threads": list(plan.threads),
        "streams": list(plan.streams),
        "peers": list(plan.baselines),
        "cold_cache_bytes": plan.extras.cold_bytes,
        **{name: getattr(plan.extras, name) for name in ("stages", "memory", "load")},
        **{name: getattr(plan, name) for name in _SETTINGS},
    }
    results: list[CaseResult] = []
    batches = plan.batches or (0,)
    for total, streams in itertools.product(plan.threads, plan.streams or (0,)):
        threads = max(1, total // streams) if streams else total
        for kind in ("layers", "products", "poolings", "models"):
            cases = getattr(plan, kind)
            if kind == "models":
                cases = [(path, batch) for batch in batches for path in plan.models]
            if not cases:
                continue
            # one thread enqueues on a GPU, but packing and other compilers may use all CPUs
            cpus = () if plan.on_gpu else pick_cpus(total)
            entries = implementations(plan, kind)
            with Workers(entries, threads, cpus, plan.extras, streams) as workers:
                workers.hello()
                # a saved file lists its cases from here on
                checkpoint(BenchResult(header, settings, tuple(results)))
                for case in cases:
                    if plan.fits and isinstance(case, suite_files.Layer):
                        case = fitting(case, entries, plan.nchw)
                    try:
                        result = measure_case(plan, workers, case)
                    except TvmconvError as error:
                        # a run on a GPU continues after a model that fails
                        if not plan.on_gpu:
                            raise
                        result = skipped_case(case, threads, str(error))
                    results.append(result)
                    tell(describe(result))
                    if plan.on_gpu:
                        header["gpu"]["nvidia_smi_after"] = nvidia_smi(header["gpu"]["pci_bus"])
                    checkpoint(BenchResult(header, settings, tuple(results)))
    return BenchResult(header, settings, tuple(results))


def measure_case(plan: BenchPlan, workers: Workers, case: Case) -> CaseResult:
    """Measure a model at a batch size (0 for its own), a layer or a product.

    Raises :class:`TvmconvError` if a model cannot be read or has no reference.
    """
    from tvmconv.lab.bench.case_memory import is_sampled, too_large
    from tvmconv.lab.bench.cases import (
        batched_model,
        write_layer_case,
        write_model_case,
        write_pooling_case,
    )
    from tvmconv.measuring.quantized import is_quantized

    labels = [run.label for run in workers.workers]
    gpu = plan.on_gpu
    if not gpu and isinstance(case, suite_files.Layer | suite_files.Product):
        reason = too_large(case.workload, labels, nchw=plan.nchw)
        if reason:
            return skipped_case(case, workers.threads, reason)
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
                # single calls, as a program makes them
                options |= {"clock": "host", "fixed": plan.shapes is None}
            reference = baseline_table.BASELINES["onnxruntime"]
            write_reference(
                Implementation("reference", reference.module, plan.python("onnxruntime")),
                folder,
                exact=is_quantized(path),
                threads=host_cores() if gpu else 1,
            )
        elif isinstance(case, suite_files.Product):
            from tvmconv.lab.bench.gemm_run import write_gemm_case

            info = write_gemm_case(folder, case.workload, case.name, case.count)
            options["product"] = str(case.workload)
        elif isinstance(case, suite_files.Pooling):
            info = write_pooling_case(folder, case.workload, case.name, case.count)
        else:
            places = _PLACES if gpu or is_sampled(case.workload) else 0
            info = write_layer_case(folder, case.workload, case.name, case.count, places)
            options |= {"workload": str(case.workload), "nchw": plan.nchw}
        return workers.measure(folder, info, plan.rounds, plan.seconds, options)


def fitting(
    layer: suite_files.Layer, implementations: Sequence[Implementation], nchw: bool
) -> suite_files.Layer:
    """The layer with its batch halved until the memory is sufficient, or with a batch of 1."""
    from tvmconv.lab.bench.case_memory import too_large

    labels = [each.label for each in implementations]
    while layer.workload.batch > 1 and too_large(layer.workload, labels, nchw=nchw):
        layer = suite_files.with_batch(layer, layer.workload.batch // 2)
    return layer


def skipped_case(case: Case, threads: int, reason: str) -> CaseResult:
    """A case without measurements, and why."""
    if isinstance(case, tuple):
        path, batch = case
        return CaseResult(
            batch_name(path.stem, batch), "model", path.name, 0, 1, threads, (), reason
        )
    w = case.workload
    kind = "layer" if isinstance(case, suite_files.Layer) else "product"
    assert not isinstance(w, PoolWorkload)
    return CaseResult(case.name, kind, str(w), w.flops, case.count, threads, (), reason)


def case_names(plan: BenchPlan) -> list[str]:
    """The cases of a plan; models by their files, most of which have the model's name."""
    models = [
        batch_name(path.stem, batch) for batch in plan.batches or (0,) for path in plan.models
    ]
    problems = (plan.layers, plan.products, plan.poolings)
    return [*(problem.name for some in problems for problem in some), *models]


def batch_name(name: str, batch: int) -> str:
    """A model's name at a batch size, 0 for its own."""
    return f"{name} mb{batch}" if batch else name
