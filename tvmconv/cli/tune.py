"""``tvmconv tune``: search faster kernels for the layers of models, and for suites."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmconv.cli import bench_options, destinations, estimating, options
from tvmconv.cli.live import Live
from tvmconv.cli.opening import rpc_address
from tvmconv.cli.output import emit, tell
from tvmconv.cli.values import Panel, fold_bytes, parse_outputs, parse_shape_lists

if TYPE_CHECKING:
    from tvmconv.lab.bench.baseline_times import BaselineTimes

SEARCH = Panel("Search")


def command(
    models: options.Models = None,
    suite: options.Suites = None,
    layer: options.Layers = None,
    trials: Annotated[
        int, SEARCH.number(0, help="Total number of candidates; 0 for no limit.")
    ] = 0,
    trials_per_layer: Annotated[
        int, SEARCH.number(1, help="Maximum number of candidates of a layer.")
    ] = 64,
    time_budget: Annotated[
        float,
        SEARCH.number(0.0, help="Total search time in seconds; 0 for no limit.", metavar="SECONDS"),
    ] = 0.0,
    early_stop: Annotated[
        int, SEARCH.number(0, help="Stop a layer after N candidates without improvement; 0 never.")
    ] = 0,
    seed: Annotated[int, SEARCH.value("N", help="Seed of the search.")] = 0,
    error_budget: options.ErrorBudget = None,
    precision: options.Precision = "float32",
    requantize: options.Requantize = "float",
    algorithms: options.Algorithms = None,
    search: Annotated[
        str,
        SEARCH.value(
            "knobs|metaschedule|both",
            help="Search schedule parameters, MetaSchedule's rules, or compare both.",
        ),
    ] = "knobs",
    tuning_log: Annotated[
        Path | None,
        destinations.log_file("--tuning-log", "-o", help="Log to append to, by default your own."),
    ] = None,
    baselines: Annotated[
        str,
        options.BASELINES.value(
            "NAME,...", help="Libraries to compare with, such as onednn, or all."
        ),
    ] = "none",
    baseline_python: bench_options.BaselinePython = None,
    rpc_tracker: Annotated[
        str,
        options.REMOTE.value(
            "HOST:PORT", help="Measure on devices of a TVM RPC tracker (requires --rpc-key)."
        ),
    ] = "",
    rpc_key: Annotated[
        list[str] | None,
        options.REMOTE.value("KEY", help="Key of the devices at the tracker; repeatable."),
    ] = None,
    estimate: estimating.Option = False,
    target: options.Target = "native",
    device: options.GpuIndex = 0,
    threads: options.Threads = None,
    shape: options.Shape = None,
    fold_budget: options.FoldBudget = None,
    outputs: options.Outputs = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Search faster kernels, verify them, and record kernels that beat the default.

    Stop it at any time by Ctrl-C: the same command continues.

    \b
    Examples:
      tvmconv tune resnet18.onnx --trials 2000
      tvmconv tune --suite resnet50 --threads 1 --tuning-log my.jsonl
      tvmconv tune --layer mb1ic64ih56oc64kh3ph1+bias+relu --trials-per-layer 200
      tvmconv tune --layer mb197ic768ih1oc3072kh1:nc+bias --trials-per-layer 64
      tvmconv tune --suite dnn12 --search both --trials-per-layer 32
      tvmconv tune --suite vgg16 --baselines onednn,openvino --time-budget 3600
      tvmconv tune net.onnx --target x86-64-v3 --rpc-tracker lab:9190 --rpc-key v3
      tvmconv tune net.onnx --target cortex-a72 --estimate
      tvmconv tune resnet50.onnx --target cuda
      tvmconv tune resnet50.onnx --target cuda --precision tf32
      tvmconv tune resnet50.onnx --target cuda --device 1
    """
    from tvmconv.cli.gpus import take_gpu
    from tvmconv.core.errors import InputError
    from tvmconv.lab.estimation.cores import core_of
    from tvmconv.lab.estimation.estimate import described_method
    from tvmconv.lab.estimation.measurer import EstimatingMeasurer
    from tvmconv.lab.estimation.tools import check_tools
    from tvmconv.machines.cuda import CudaMachine
    from tvmconv.machines.record import processor
    from tvmconv.machines.targets import resolve_device
    from tvmconv.measuring.host import host_header
    from tvmconv.records.logfile import append, check_destination
    from tvmconv.records.lookup import default_log
    from tvmconv.records.space import KNOBS, SPACES
    from tvmconv.selection.policy import check_algorithms, check_precision
    from tvmconv.tuning.cost_model import check_packages
    from tvmconv.tuning.pool import Pool
    from tvmconv.tuning.remote import make_measurer
    from tvmconv.tuning.reports import tune_report
    from tvmconv.tuning.session import check_device, check_host, collect, tunable, tune
    from tvmconv.tuning.settings import Settings

    if not (models or suite or layer):
        raise InputError("nothing to tune. Name a model, --suite NAME or --layer PROBLEM.")
    space = SPACES.get(search, "")
    if not space:
        raise InputError(f"unknown --search {search!r}. Expected knobs, metaschedule or both.")
    if rpc_tracker and baselines != "none":
        raise InputError("--baselines cannot be combined with --rpc-tracker")
    if bool(rpc_tracker) != bool(rpc_key):
        raise InputError("--rpc-tracker HOST:PORT and --rpc-key KEY require each other")
    if estimate and (rpc_tracker or baselines != "none" or space != KNOBS):
        raise InputError(
            "--estimate cannot be combined with --rpc-tracker, --baselines or --search"
        )
    address = rpc_address(rpc_tracker, "--rpc-tracker") if rpc_tracker else None
    take_gpu(device, target, bool(rpc_tracker))
    machine = resolve_device(target, estimating.one_thread(threads) if estimate else threads)
    on_gpu = isinstance(machine, CudaMachine)
    if on_gpu and (estimate or space != KNOBS or baselines != "none"):
        raise InputError(
            "--estimate, --search and --baselines of tune require a CPU target. Use bench for "
            "predictions and other libraries on GPUs."
        )
    check_packages()
    if estimate:
        check_tools(machine.triple)
    else:
        check = check_device if rpc_tracker else check_host
        check(machine)
    path = tuning_log or default_log(machine, estimate)
    check_destination(path)
    shapes = parse_shape_lists(shape)
    folding = fold_bytes(fold_budget)
    settings = Settings(
        trials=trials_per_layer,
        early_stop=early_stop,
        seed=seed,
        error_budget=error_budget,
        precision=precision,
        requantize=requantize,
        algorithms=check_algorithms(algorithms.split(",")) if algorithms else (),
    )
    check_precision(settings.policy, machine)
    live, completed = Live(), False
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        found = collect(
            machine,
            models or [],
            suite or [],
            layer or [],
            shapes,
            folding,
            settings.policy,
            parse_outputs(outputs),
        )
        tasks, left = tunable(found, machine, settings)
        core = core_of(processor(machine)) if estimate else None
        unit = f", times estimated at {core.clock_text}" if core else ""
        tell(f"{len(tasks)} workloads, log {path}{unit}")
        if tuning_log is not None:
            # builds can name the log if no layer gains
            append(tuning_log, [])
        start = time.monotonic()
        pool = stack.enter_context(Pool())
        rivals = _baseline_times(baselines, baseline_python or [], machine.cores)
        if rivals is not None:
            stack.enter_context(rivals)
        elif not estimate:
            # not while baselines are timed
            pool.launch()
        stack.enter_context(live)
        tune(
            tasks,
            machine,
            EstimatingMeasurer(processor(machine))
            if estimate
            else make_measurer(pool, on_gpu, address, rpc_key or []),
            path,
            settings,
            total_trials=trials,
            time_budget=time_budget or math.inf,
            space=space,
            baselines=rivals,
            observe=live,
        )
        completed = True
    if completed or live.finished:
        missing = rivals.failures if rivals is not None else {}
        seconds = time.monotonic() - start
        estimated = (
            {"estimated_at": core.clock_text, "estimate_method": described_method(core)}
            if core
            else None
        )
        result = tune_report(tasks, live.finished, path, seconds, missing, estimated, left)
        if not (estimate or rpc_tracker or on_gpu):
            header = {"machine": host_header(), "target": machine.name, "threads": machine.cores}
            result = replace(result, data=header)
        emit(result, as_json, report)
    if not completed:
        tell(_stopped(path, len(live.finished), report))
        raise typer.Exit(130)


def _stopped(log: Path, finished: int, report: Path | None) -> str:
    """Where a search that Ctrl-C ended has saved what, and how it continues."""
    from tvmconv.tuning.journal import trials_path

    trials = trials_path(log)
    if not trials.exists():
        return "stopped before the first trial. Nothing was saved."
    layers = f"after {finished} finished layer{'s' * (finished > 1)}"
    text = f"stopped {layers if finished else 'before a layer was finished'}. "
    text += f"{trials} has all trials"
    text += f", and {log} the records" if log.exists() else ""
    text += ". The same command continues from there."
    if report is not None:
        has = "has the finished layers" if finished else "is written when a layer is finished"
        text += f" {report} {has}."
    return text


def _baseline_times(names: str, pythons: list[str], threads: int) -> BaselineTimes | None:
    """The baselines by their names on the command line."""
    if names == "none":
        return None
    from tvmconv.lab.bench.baseline_times import BaselineTimes
    from tvmconv.lab.bench.plan import make_plan

    plan = make_plan(baselines=names, baseline_python=pythons)
    return BaselineTimes(
        plan.baselines, {name: plan.python(name) for name in plan.baselines}, threads
    )
