"""``tvmconv compile``: ONNX in, shared object and manifest out."""

from __future__ import annotations

import time

from tvmconv.cli import options
from tvmconv.cli.output import emit


def command(
    model: options.OnnxModel,
    output: options.ModelOutput,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    algorithms: options.Algorithms = None,
    no_winograd: options.NoWinograd = False,
    memory_budget: options.MemoryBudget = None,
    fold_budget: options.FoldBudget = None,
    error_budget: options.ErrorBudget = None,
    finite: options.Finite = True,
    override: options.OverrideFile = None,
    log: options.TuningLog = None,
    as_json: options.Json = False,
    save: options.Save = None,
) -> None:
    """Build a model and save it as a .so with its manifest (.json) beside it.

    \b
    Examples:
      tvmconv compile resnet18.onnx -o resnet18.so
      tvmconv compile net.onnx -o net.so --shape input:1x3x224x224 --threads 2
      tvmconv compile net.onnx -o net.so --target x86-64-v3
      tvmconv compile net.onnx -o net.so --memory-budget 4MiB --error-budget 3e-5
    """
    from tvmconv.cli.opening import open_model
    from tvmconv.core.errors import InputError
    from tvmconv.report.summary import compile_report

    if model.suffix == ".so":
        raise InputError(f"{model} is built already; compile takes an ONNX model")
    choices = options.parse_choices(
        algorithms,
        no_winograd,
        memory_budget,
        error_budget,
        override,
        log,
        finite=finite,
        fold_budget=fold_budget,
    )
    started = time.perf_counter()
    compiled = open_model(model, target, threads, shape, choices)
    compiled.save(output)
    seconds = time.perf_counter() - started
    emit(compile_report(compiled, output, seconds), as_json, save)
