"""``tvmconv bench``: models or layers beside other libraries, in interleaved rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tvmconv.cli import destinations, estimating, options
from tvmconv.cli.output import emit, tell, write_text
from tvmconv.cli.sizes import fold_bytes
from tvmconv.core.plain_data import json_text

if TYPE_CHECKING:
    from tvmconv.lab.bench.plan import Plan
    from tvmconv.lab.bench.result import BenchResult
    from tvmconv.report.document import Report


def command(
    models: options.Models = None,
    suite: options.Suites = None,
    layer: options.Layers = None,
    peers: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Libraries to compare with, by name (see --list), all or none."
        ),
    ] = "all",
    peer_python: options.PeerPython = None,
    algorithms: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KNOB=VALUE...],...",
            help="Our rows: names, -NAME, all, NAME:steps for the steps of its source, or with "
            "knobs, e.g. winograd:mh=2/4:mw=4 or im2win_nchw:level=all.",
            show_default="every algorithm that computes the layer",
        ),
    ] = "",
    batch: Annotated[
        str,
        typer.Option(
            metavar="N,...", help="Batch sizes of all layers and models, in place of their own."
        ),
    ] = "",
    types: Annotated[
        str,
        typer.Option(
            metavar="TYPES",
            help="Data types of all layers, e.g. u8s8s32u8 for 8 bits.",
            show_default="float32, or the layer's own",
        ),
    ] = "",
    target: options.Target = "native",
    device: options.GpuIndex = 0,
    kernels: Annotated[
        Optional[Path],  # noqa: UP045
        destinations.result_folder(
            "--kernels",
            help="Of GPUs: take compiled kernels from this folder, and keep new ones there.",
        ),
    ] = None,
    compile_only: Annotated[
        bool,
        typer.Option(
            "--compile-only", help="Of GPUs: fill the folder of --kernels and measure nothing."
        ),
    ] = False,
    precision: options.Precision = "float32",
    threads: Annotated[str, typer.Option(metavar="N,...", help="Thread counts, e.g. 1,2.")] = "1",
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Interleaved rounds.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="Time for one peer in one round.")
    ] = 0.2,
    samples: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Of GPUs: samples of each row at least, of all rounds."
        ),
    ] = 50,
    shape: options.Shape = None,
    fold_budget: options.FoldBudget = None,
    log: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="FILE",
            help="Builds with this tuning log beside builds without any; of layers, what a build"
            " takes for them.",
            show_default=False,
        ),
    ] = None,
    stages: Annotated[
        bool, typer.Option("--stages", help="Time transforms, packing and products apart.")
    ] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="Also call with everything in memory, as in a network.")
    ] = False,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory", help="Bytes of each method, and what each process needs for a call."
        ),
    ] = False,
    load: Annotated[
        bool,
        typer.Option(
            "--load", help="Of models, also time and memory of loading them in a fresh process."
        ),
    ] = False,
    relax_pass: Annotated[
        bool,
        typer.Option(
            "--relax-pass", help="Of models, also relax.build after the pass SubstituteConv2d."
        ),
    ] = False,
    estimate: estimating.Option = False,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Rows to compare all others with; im2col and direct by default.",
            show_default=False,
        ),
    ] = "",
    show: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(metavar="FILE", help="Print --save files again, joined; measures nothing."),
    ] = None,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="Fit a cost model: CPUs with --check-model, GPUs with --show FILE.",
        ),
    ] = False,
    compare: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Earlier --save file; adds a ratio for every row."),
    ] = None,
    csv: Annotated[
        Optional[Path],  # noqa: UP045
        destinations.result_file("--csv", help="Write the table as CSV."),
    ] = None,
    check_model: Annotated[
        bool,
        typer.Option(
            "--check-model",
            help="Measure our own candidates instead, and show where the cost model errs.",
        ),
    ] = False,
    cache_misses: Annotated[
        bool,
        typer.Option(
            "--cache-misses",
            help="Simulate our kernels' cache misses by valgrind instead; needs a target without "
            "AVX-512.",
        ),
    ] = False,
    list_names: Annotated[bool, typer.Option("--list", help="List suites and peers.")] = False,
    as_json: options.Json = False,
    save: options.Save = None,
) -> None:
    """Measure against other libraries and the machine's peak, verified and interleaved.

    \b
    Examples:
      tvmconv bench resnet18.onnx --peers onnxruntime,openvino --threads 1,2
      tvmconv bench --suite resnet50 --save today.json --compare yesterday.json
      tvmconv bench --layer mb1ic64ih56oc64kh3ph1 --peers onednn
      tvmconv bench --layer ic64ih56oc64kh3ph1 --algorithms all:steps --stages
      tvmconv bench --suite dnn12 --batch 16 --algorithms im2win,im2col --memory
      tvmconv bench resnet18.onnx --log mine.jsonl --peers none
      tvmconv bench resnet50.onnx --load --peers onnxruntime,ncnn,mnn
      tvmconv bench --show a.json --show b.json --csv both.csv
      tvmconv bench --show h100.json --fit --save fit.json
      tvmconv bench --suite resnet18 --check-model --rounds 3 --seconds 0.05
      tvmconv bench --suite resnet18 --suite vgg16 --check-model --fit --threads 1
      tvmconv bench --suite resnet50 --target neoverse-n1 --estimate --peers none
      tvmconv bench --suite dnn12 --batch 128 --target cuda:sm_90 --estimate
      tvmconv bench resnet50.onnx --target cuda --peers torch --batch 1,32
      tvmconv bench --suite resnet50 --target cuda --precision tf32 --peers cudnn
      tvmconv bench --suite vgg16 --target cuda --device 1 --peers cudnn
      tvmconv bench --suite dnn12 --target x86-64-v3 --cache-misses --peers none
      tvmconv bench --list
    """
    from tvmconv.cli.gpus import take_gpu
    from tvmconv.core.errors import InputError
    from tvmconv.lab.bench.measuring import run_plan
    from tvmconv.lab.bench.plan import make_plan
    from tvmconv.lab.bench.report import bench_report
    from tvmconv.lab.bench.result import joined, read_saved

    if list_names:
        from tvmconv.lab.bench.listing import list_report

        emit(list_report(peer_python or []), as_json, save)
        return
    if not (show or models or suite or layer):
        raise InputError("nothing to measure; give a model, --suite NAME or --layer PROBLEM")
    if estimate and (check_model or compare or show):
        raise InputError("--estimate cannot be combined with --check-model, --compare or --show")
    take_gpu(device, target)
    if check_model:
        if models:
            raise InputError("--check-model requires layers. Add --suite NAME or --layer PROBLEM.")
        counts = options.integers(threads, "--threads")
        found = _check_model(suite or [], layer or [], target, counts, rounds, seconds, fit)
        emit(found, as_json, save)
        return
    if fit:
        from tvmconv.lab.bench.gpu.fit import fit_report

        if not show:
            raise InputError("--fit requires --check-model, or --show FILE with measured GPUs")
        emit(fit_report([read_saved(path) for path in show], tell), as_json, save)
        return
    earlier = read_saved(compare) if compare else None
    if show:
        result = joined([read_saved(path) for path in show])
    else:
        plan = make_plan(
            models=models or [],
            suites=suite or [],
            layers=layer or [],
            peers=peers,
            target=target,
            threads=options.integers(threads, "--threads"),
            rounds=rounds,
            seconds=seconds,
            shapes=options.parse_shapes(shape) or {},
            fold_budget=fold_bytes(fold_budget),
            peer_python=peer_python or [],
            algorithms=algorithms,
            batch=options.integers(batch, "--batch") if batch else None,
            types=types,
            stages=stages,
            cold=cold,
            memory=memory,
            load=load,
            log=log,
            relax_pass=relax_pass,
            kernels=kernels,
            samples=samples,
            precision=precision,
        )

        if compile_only:
            from tvmconv.lab.bench.gpu.prepare import check_compiled, compile_plan

            compiled = compile_plan(plan, tell)
            emit(compiled, as_json, save)
            check_compiled(compiled)
            return
        if cache_misses:
            from tvmconv.lab.bench.cache_misses import cache_misses as simulate

            emit(simulate(plan, tell), as_json, save)
            return
        if estimate:
            found = _estimated(plan)
            if csv is not None:
                write_text(csv, found.tables[0].to_csv())
            emit(found, as_json, save)
            return

        def checkpoint(result: BenchResult) -> None:
            if save is not None:
                write_text(save, json_text(result.to_json()))

        result = run_plan(plan, tell, checkpoint)
    report = bench_report(result, earlier, against=against)
    if csv is not None:
        write_text(csv, report.tables[0].to_csv())
    emit(report, as_json, save)


def _estimated(plan: Plan) -> Report:
    """Of GPUs the cost model's predictions, of processors counts under qemu."""
    if plan.on_gpu:
        from tvmconv.lab.bench.gpu.predicted import predict_plan

        return predict_plan(plan, tell)
    from tvmconv.lab.bench.estimates import estimate_plan
    from tvmconv.lab.estimation.tools import check_tools
    from tvmconv.machines.targets import resolve_machine

    check_tools(resolve_machine(plan.target).triple)
    return estimate_plan(plan, tell)


def _check_model(
    suites: list[str],
    problems: list[str],
    target: str,
    threads: tuple[int, ...],
    rounds: int,
    seconds: float,
    fit: bool,
) -> Report:
    from tvmconv.core.errors import InputError
    from tvmconv.lab.bench import cpu_fit
    from tvmconv.lab.bench.check_model import check_model_report
    from tvmconv.machines.targets import resolve_machine, shipped_machine
    from tvmconv.measuring import suites as layer_suites
    from tvmconv.tvm_runtime.threads import prepare

    if len(threads) != 1:
        given = ",".join(map(str, threads))
        raise InputError(f"--check-model requires one number of threads, got --threads {given}")
    named = {name: layer_suites.load(name) for name in suites}
    if problems:
        named["layers"] = tuple(map(layer_suites.parse_layer, problems))
    machine = resolve_machine(target, threads[0])
    shipped = shipped_machine(target, threads[0])
    prepare(machine.cores)
    if fit:
        rows = cpu_fit.measure(named, machine, rounds, seconds, tell)
        return cpu_fit.fit_report(rows, machine, tell)
    return check_model_report(
        [layer for layers in named.values() for layer in layers],
        machine,
        rounds=rounds,
        seconds=seconds,
        other=shipped if shipped != machine else None,
        tell=tell,
    )
