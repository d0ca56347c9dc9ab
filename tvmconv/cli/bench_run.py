"""``tvmconv bench run``: models or layers next to other libraries, in interleaved rounds."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmconv.cli import bench_options, destinations, estimating, options
from tvmconv.cli.output import emit, tell, write_text
from tvmconv.cli.values import batch_sizes, fold_bytes, integers, parse_shapes, parse_targets
from tvmconv.core.plain_data import json_text

if TYPE_CHECKING:
    from tvmconv.lab.bench.plan import BenchPlan
    from tvmconv.lab.bench.result import BenchResult
    from tvmconv.report.document import Report


def run(
    models: options.Models = None,
    suite: options.Suites = None,
    layer: options.Layers = None,
    algorithms: bench_options.Variants = "",
    batch: bench_options.Batch = "",
    types: bench_options.Types = "",
    nchw: Annotated[
        bool,
        options.MEASURING.flag(
            "--nchw", help="Layers from NCHW to NCHW, with conversions in the calls."
        ),
    ] = False,
    baselines: Annotated[
        str, options.BASELINES.value("NAME,...", help="Libraries to compare with, all or none.")
    ] = "all",
    baseline_python: bench_options.BaselinePython = None,
    target: options.Target = "native",
    threads: Annotated[
        str,
        options.BUILD.value(
            "N,...", help="Numbers of threads, such as 1,2.", show_default=options.ALL_CPUS
        ),
    ] = "",
    streams: bench_options.Streams = "",
    shape: options.Shape = None,
    fold_budget: options.FoldBudget = None,
    tuning_log: Annotated[
        str | None,
        options.BUILD.value(
            "FILE", help="Compare builds with this tuning log and without any.", show_default=False
        ),
    ] = None,
    rounds: bench_options.Rounds = 5,
    seconds: bench_options.Seconds = 0.2,
    stages: Annotated[
        bool,
        options.MEASURING.flag("--stages", help="Time transforms, packing and GEMM separately."),
    ] = False,
    cold: Annotated[
        bool, options.MEASURING.flag("--cold", help="Measure with cold caches too.")
    ] = False,
    memory: Annotated[
        bool, options.MEASURING.flag("--memory", help="Measure the bytes that each method needs.")
    ] = False,
    load: Annotated[
        bool,
        options.MEASURING.flag("--load", help="Measure the loading of models in a fresh process."),
    ] = False,
    relax_pass: Annotated[
        bool,
        options.MEASURING.flag(
            "--relax-pass", help="Measure relax.build after SubstituteConv2d too (models)."
        ),
    ] = False,
    estimate: estimating.Option = False,
    device: options.GpuIndex = 0,
    precision: options.Precision = "float32",
    kernels: Annotated[
        Path | None,
        destinations.result_folder(
            "--kernels",
            help="CUDA only: folder of compiled kernels, read and filled.",
            panel=options.GPU,
        ),
    ] = None,
    compile_only: Annotated[
        bool,
        options.GPU.flag("--compile-only", help="CUDA only: fill --kernels and measure nothing."),
    ] = False,
    samples: Annotated[
        int, options.GPU.number(1, help="CUDA only: minimum samples of each row.")
    ] = 50,
    relative_to: bench_options.RelativeTo = "",
    csv: options.Csv = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Measure models or layers, verified and interleaved.

    \b
    Examples:
      tvmconv bench run resnet18.onnx --baselines onnxruntime,openvino
      tvmconv bench run --suite resnet50 --threads 1,2 --report today.json
      tvmconv bench run resnet50.onnx --streams 1,2,4 --baselines onnxruntime
      tvmconv bench run --layer mb1ic64ih56oc64kh3ph1 --baselines onednn
      tvmconv bench run --layer ic64ih56oc64kh3ph1 --algorithms all:steps
      tvmconv bench run --suite dnn12 --batch fit:128 --nchw --algorithms im2win
      tvmconv bench run --layer ic64ih28oc64kh3ph1 --algorithms winograd:mh=2/4
      tvmconv bench run resnet18.onnx --tuning-log mine.jsonl --baselines none
      tvmconv bench run resnet50.onnx --load --baselines onnxruntime,ncnn,mnn
      tvmconv bench run --suite resnet50 --target neoverse-n1 --estimate
      tvmconv bench run --suite dnn12 --batch 128 --target cuda:sm_90 --estimate
      tvmconv bench run --suite vgg16 --target cuda --baselines cudnn
      tvmconv bench run resnet50.onnx --target cuda --device 1 --precision tf32
    """
    from tvmconv.cli.gpus import take_gpu
    from tvmconv.core.errors import InputError
    from tvmconv.lab.bench.measuring import run_plan
    from tvmconv.lab.bench.plan import make_plan
    from tvmconv.lab.bench.report import bench_report
    from tvmconv.machines.several import running_here
    from tvmconv.machines.targets import resolve_device

    if not (models or suite or layer):
        raise InputError("nothing to measure. Name a model, --suite NAME or --layer PROBLEM.")
    listed = parse_targets(target)
    if not estimate and not isinstance(listed, str):
        target = running_here(listed)
        tell(f"target     {target} of the list, which runs on this CPU")
    take_gpu(device, target)
    sizes, fits = batch_sizes(batch)
    default = 1 if estimate else resolve_device(target).cores
    plan = make_plan(
        models=models or [],
        suites=suite or [],
        layers=layer or [],
        baselines=baselines,
        target=target,
        threads=integers(threads, "--threads") if threads else (default,),
        rounds=rounds,
        seconds=seconds,
        shapes=parse_shapes(shape) or {},
        fold_budget=fold_bytes(fold_budget),
        baseline_python=baseline_python or [],
        algorithms=algorithms,
        batch=sizes,
        fits=fits,
        nchw=nchw,
        types=types,
        stages=stages,
        cold=cold,
        memory=memory,
        load=load,
        log=tuning_log,
        relax_pass=relax_pass,
        kernels=kernels,
        samples=samples,
        precision=precision,
        streams=integers(streams, "--streams") if streams else (),
    )
    if estimate and streams:
        raise InputError("--estimate supports single calls only. Leave out --streams.")
    if compile_only:
        from tvmconv.lab.bench.gpu.prepare import check_compiled, compile_plan

        compiled = compile_plan(plan, tell)
        emit(compiled, as_json, report)
        check_compiled(compiled)
        return

    measured: BenchResult | None = None
    found: Report | None = None
    completed = False

    def checkpoint(result: BenchResult) -> None:
        nonlocal measured
        measured = result
        if report is not None:
            write_text(report, json_text(result.to_json()))

    with suppress(KeyboardInterrupt):
        if estimate:
            found = _estimated(plan)
        else:
            measured = run_plan(plan, tell, checkpoint)
        completed = True
    if measured is not None and (completed or measured.results):
        found = bench_report(measured, against=relative_to)
    if found is not None:
        emit(found, as_json, report, csv)
    if not completed:
        tell(_stopped(len(measured.results) if measured else 0, report))
        raise typer.Exit(130)


def _stopped(cases: int, report: Path | None) -> str:
    """The finished cases of a run that Ctrl-C ended, and how to continue."""
    text = f"stopped after {cases} finished case{'s' * (cases != 1)}."
    if report is not None and cases:
        text += f" {report} has them."
    return f"{text} The same command starts again from the first case."


def _estimated(plan: BenchPlan) -> Report:
    """The cost model's predictions for GPUs, cycles counted under QEMU for CPUs."""
    if plan.on_gpu:
        from tvmconv.lab.bench.gpu.predicted import predict_plan

        return predict_plan(plan, tell)
    from tvmconv.lab.bench.estimates import estimate_plan
    from tvmconv.lab.estimation.tools import check_tools
    from tvmconv.machines.targets import resolve_machine

    check_tools(resolve_machine(plan.target).triple)
    return estimate_plan(plan, tell)
