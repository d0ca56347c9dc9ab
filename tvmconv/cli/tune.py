"""``tvmconv tune``: search faster kernels for the convolutions of models, suites and layers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tvmconv.cli import destinations, estimating, options
from tvmconv.cli.live import Live
from tvmconv.cli.opening import rpc_address
from tvmconv.cli.output import emit, tell
from tvmconv.cli.sizes import fold_bytes

if TYPE_CHECKING:
    from tvmconv.lab.bench.baseline_times import PeerTimes
    from tvmconv.tuning.measure import Measurer
    from tvmconv.tuning.pool import Pool


def command(
    models: options.Models = None,
    suite: options.Suites = None,
    layer: options.Layers = None,
    trials: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Candidates in all, shared evenly; 0 for no such limit."
        ),
    ] = 0,
    trials_per_layer: Annotated[
        int, typer.Option(min=1, metavar="N", help="Candidates measured for one workload at most.")
    ] = 64,
    time_budget: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Seconds, shared by predicted time; 0 for no limit."
        ),
    ] = 0.0,
    early_stop: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="End a workload after so many vain candidates; 0 never."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same proposals.")] = 0,
    error_budget: options.ErrorBudget = None,
    precision: options.Precision = "float32",
    requantise: options.Requantise = "float",
    algorithms: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Algorithms to try, e.g. direct,winograd; all by default."
        ),
    ] = "",
    space: Annotated[
        str,
        typer.Option(
            metavar="knobs|auto|both",
            help="knobs of the schedules; auto: MetaSchedule's rules; both: compare the two.",
        ),
    ] = "knobs",
    log: Annotated[
        Optional[Path],  # noqa: UP045
        destinations.log_file("--log", help="Log to append to; the user's log by default."),
    ] = None,
    peers: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Libraries to show beside the best, e.g. onednn,openvino, or all.",
        ),
    ] = "none",
    peer_python: options.PeerPython = None,
    rpc_tracker: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Measure on devices of TVM's RPC tracker; for trusted networks only.",
        ),
    ] = "",
    rpc_key: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="KEY", help="Key of the devices at the tracker; may be repeated."),
    ] = None,
    estimate: estimating.Option = False,
    target: options.Target = "native",
    device: options.GpuIndex = 0,
    threads: options.Threads = None,
    shape: options.Shape = None,
    fold_budget: options.FoldBudget = None,
    as_json: options.Json = False,
    save: options.Save = None,
) -> None:
    """Search faster kernels, verify them, and log those that beat the default.

    Stop it at any time: the same command goes on where it was.

    \b
    Examples:
      tvmconv tune resnet18.onnx --trials 2000
      tvmconv tune --suite resnet50 --target x86-64-v3 --threads 1 --log my.jsonl
      tvmconv tune --layer mb1ic64ih56oc64kh3ph1+bias+relu --trials-per-layer 200
      tvmconv tune --suite dnn12 --space both --trials-per-layer 32
      tvmconv tune --suite vgg16 --peers onednn,openvino --time-budget 3600
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
    from tvmconv.records.logfile import check_destination
    from tvmconv.records.lookup import default_log
    from tvmconv.selection.policy import check_algorithms, check_precision
    from tvmconv.tuning.cost_model import check_packages
    from tvmconv.tuning.pool import Pool
    from tvmconv.tuning.reports import tune_report
    from tvmconv.tuning.session import check_device, check_host, collect, tune
    from tvmconv.tuning.settings import Settings

    if not (models or suite or layer):
        raise InputError("nothing to tune; give a model, --suite NAME or --layer PROBLEM")
    if space not in ("knobs", "auto", "both"):
        raise InputError(f"unknown --space {space!r}; use knobs, auto or both")
    if space != "knobs" and rpc_tracker:
        raise InputError(f"--space {space} cannot be combined with --rpc-tracker")
    if rpc_tracker and peers != "none":
        raise InputError("--peers cannot be combined with --rpc-tracker")
    if bool(rpc_tracker) != bool(rpc_key):
        raise InputError("--rpc-tracker HOST:PORT and --rpc-key KEY require each other")
    if estimate and (rpc_tracker or peers != "none" or space != "knobs"):
        raise InputError("--estimate cannot be combined with --rpc-tracker, --peers or --space")
    take_gpu(device, target, bool(rpc_tracker))
    machine = resolve_device(target, estimating.one_thread(threads) if estimate else threads)
    on_gpu = isinstance(machine, CudaMachine)
    if on_gpu and (estimate or space != "knobs" or peers != "none"):
        raise InputError(
            "--estimate, --space and --peers of tune require a CPU target. Use bench for "
            "predictions and other libraries on GPUs."
        )
    check_packages()
    if estimate:
        check_tools(machine.triple)
    else:
        check = check_device if rpc_tracker else check_host
        check(machine)
    path = log or default_log(machine, estimate)
    check_destination(path)
    shapes = options.parse_shapes(shape)
    folding = fold_bytes(fold_budget)
    settings = Settings(
        trials=trials_per_layer,
        early_stop=early_stop,
        seed=seed,
        error_budget=error_budget,
        precision=precision,
        requantise=requantise,
        algorithms=check_algorithms(algorithms.split(",")) if algorithms else (),
    )
    check_precision(settings.policy, machine)
    with ExitStack() as stack:
        stack.enter_context(_stoppable())
        tasks = collect(
            machine, models or [], suite or [], layer or [], shapes, folding, settings.policy
        )
        core = core_of(processor(machine)) if estimate else None
        unit = f", times estimated at {core.clock_text}" if core else ""
        tell(f"{len(tasks)} workloads, log {path}{unit}")
        start = time.monotonic()
        pool = stack.enter_context(Pool())
        rivals = _peer_times(peers, peer_python or [], machine.cores)
        if rivals is not None:
            stack.enter_context(rivals)
        elif not estimate:
            # not while peers are timed
            pool.launch()
        observe = stack.enter_context(Live())
        outcomes = tune(
            tasks,
            machine,
            EstimatingMeasurer(processor(machine))
            if estimate
            else _measurer(pool, rpc_tracker, rpc_key or [], on_gpu),
            path,
            settings,
            total_trials=trials,
            time_budget=time_budget or math.inf,
            space=space,
            peers=rivals,
            observe=observe,
        )
    missing = rivals.failures if rivals is not None else {}
    seconds = time.monotonic() - start
    estimated = (
        {"estimated_at": core.clock_text, "estimate_method": described_method(core)}
        if core
        else None
    )
    report = tune_report(tasks, outcomes, path, seconds, missing, estimated)
    emit(report, as_json, save)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends the command without a word of Python's."""
    try:
        yield
    except KeyboardInterrupt:
        tell("stopped; the same command goes on from here")
        raise typer.Exit(130) from None


def _peer_times(peers: str, pythons: list[str], threads: int) -> PeerTimes | None:
    """The peers by their names on the command line."""
    if peers == "none":
        return None
    from tvmconv.lab.bench.baseline_times import PeerTimes
    from tvmconv.lab.bench.plan import make_plan

    plan = make_plan(peers=peers, peer_python=pythons)
    return PeerTimes(plan.peers, {name: plan.python(name) for name in plan.peers}, threads)


def _measurer(pool: Pool, tracker: str, keys: list[str], on_gpu: bool) -> Measurer:
    """This machine, its GPU, or the devices of a tracker."""
    from tvmconv.tuning.gpu_measure import GpuMeasurer
    from tvmconv.tuning.measure import LocalMeasurer
    from tvmconv.tuning.remote import RemoteMeasurer

    if not tracker:
        return GpuMeasurer(pool) if on_gpu else LocalMeasurer(pool)
    host, port = rpc_address(tracker, "--rpc-tracker")
    return RemoteMeasurer(pool, host, port, keys)
