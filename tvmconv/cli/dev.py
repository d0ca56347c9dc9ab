"""``tvmconv dev``: checks of the cost models, for people who work on tvmconv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import bench_options, options
from tvmconv.cli.command import add, group
from tvmconv.cli.output import emit, tell
from tvmconv.cli.values import argument, flag

app = group("Check and fit the cost models (for development).")


def check_model(
    suite: options.Suites = None,
    layer: options.Layers = None,
    target: options.Target = "native",
    threads: options.Threads = None,
    rounds: bench_options.Rounds = 5,
    seconds: bench_options.Seconds = 0.2,
    fit: Annotated[
        bool, flag("--fit", help="Also fit the constants of the models (CPU only).")
    ] = False,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Measure all candidates of layers, and show where the cost model errs.

    \b
    Examples:
      tvmconv dev check-model --suite resnet18 --rounds 3 --seconds 0.05
      tvmconv dev check-model --layer ic64ih56oc64kh3ph1 --threads 1
      tvmconv dev check-model --fit --suite resnet18 --suite vgg16 --threads 1
    """
    from tvmconv.core.errors import InputError
    from tvmconv.lab.bench.check_model import check_model_report
    from tvmconv.machines.targets import resolve_machine, shipped_machine
    from tvmconv.measuring import suites as layer_suites
    from tvmconv.tvm_runtime.threads import prepare

    if not (suite or layer):
        raise InputError("nothing to measure. Name --suite NAME or --layer PROBLEM.")
    named = {name: tuple(layer_suites.load(name)) for name in suite or []}
    if layer:
        named["layers"] = tuple(map(layer_suites.parse_layer, layer))
    machine = resolve_machine(target, threads)
    shipped = shipped_machine(target, threads)
    prepare(machine.cores)
    if fit:
        from tvmconv.lab.bench import cpu_fit

        rows = cpu_fit.measure(named, machine, rounds, seconds, tell)
        emit(cpu_fit.fit_report(rows, machine, tell), as_json, report)
        return
    found = check_model_report(
        [each for layers in named.values() for each in layers],
        machine,
        rounds=rounds,
        seconds=seconds,
        other=shipped if shipped != machine else None,
        tell=tell,
    )
    emit(found, as_json, report)


def cache_misses(
    suite: options.Suites = None,
    layer: options.Layers = None,
    algorithms: bench_options.Variants = "",
    batch: bench_options.Batch = "",
    types: bench_options.Types = "",
    target: options.Target = "native",
    tuning_log: options.TuningLog = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Simulate the cache misses of kernels by valgrind, for targets without AVX-512.

    \b
    Examples:
      tvmconv dev cache-misses --suite dnn12 --target x86-64-v3
    """
    from tvmconv.cli.values import integers
    from tvmconv.core.errors import InputError
    from tvmconv.lab.bench.cache_misses import cache_misses as simulate
    from tvmconv.lab.bench.plan import make_plan

    if not (suite or layer):
        raise InputError("nothing to simulate. Name --suite NAME or --layer PROBLEM.")
    plan = make_plan(
        suites=suite or [],
        layers=layer or [],
        baselines="none",
        target=target,
        algorithms=algorithms,
        batch=integers(batch, "--batch") if batch else None,
        types=types,
        log=tuning_log,
    )
    emit(simulate(plan, tell), as_json, report)


def fit(
    files: Annotated[list[Path], argument("FILE...", help="Reports of `bench run` on a GPU.")],
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Fit the cost model of GPUs to measured reports.

    \b
    Examples:
      tvmconv dev fit h100.json --report fit.json
    """
    from tvmconv.lab.bench.gpu.fit import fit_report
    from tvmconv.lab.bench.result import read_saved

    emit(fit_report([read_saved(path) for path in files], tell), as_json, report)


for _function in (check_model, cache_misses, fit):
    add(app, _function.__name__.replace("_", "-"), _function)
