"""``tvmconv explain``: which algorithm every layer got, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmconv.cli import destinations, estimating, options
from tvmconv.cli.choices import DEFAULT, Choices, with_choices
from tvmconv.cli.output import emit, progress, tell, write_text
from tvmconv.cli.values import flag, parse_shapes, value

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts
    from tvmconv.model import CompiledModel


@with_choices
def command(
    model: options.Model,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    choices: Choices = DEFAULT,
    measure_error: Annotated[
        bool, flag("--measure-error", help="Run every layer's kernel and compare with float64.")
    ] = False,
    measure: Annotated[
        bool,
        options.MEASURING.flag("--measure", help="Time every layer and measure the CPU's peak."),
    ] = False,
    device: options.GpuIndex = 0,
    estimate: estimating.Option = False,
    knobs: Annotated[
        bool, flag("--knobs", help="Describe the schedule parameters of the chosen schedules.")
    ] = False,
    layer: Annotated[
        str, value("NAME", "--layer", help="Show one layer in detail, or its kernel with --show.")
    ] = "",
    show: Annotated[
        str,
        value(
            "FORM",
            "--show",
            help="Print a layer's kernel: tir, asm or after:PASS (requires --layer).",
        ),
    ] = "",
    html: Annotated[
        Path | None, destinations.result_file("--html", help="Write an HTML page with charts.")
    ] = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Show the algorithm of every layer, the other candidates and the reasons.

    \b
    Examples:
      tvmconv explain resnet18.so
      tvmconv explain fleet.so --target x86-64-v3
      tvmconv explain resnet18.onnx --target x86-64-v3 --json
      tvmconv explain resnet18.onnx --error-budget 3e-5 --measure-error
      tvmconv explain resnet18.onnx --measure --html resnet18.html
      tvmconv explain resnet18.onnx --layer layer1.0.conv1
      tvmconv explain resnet18.onnx --target cortex-a72 --estimate
      tvmconv explain resnet18.onnx --layer layer1.0.conv1 --show asm
      tvmconv explain resnet18.onnx --layer layer1.0.conv1 --show after:Specialize
    """
    from tvmconv.cli.gpus import built_for
    from tvmconv.cli.opening import build_shapes, open_model, program_of
    from tvmconv.compile.inspection import find_layer
    from tvmconv.core.errors import InputError
    from tvmconv.report.explain import explain_report
    from tvmconv.report.explain_layer import explain_layer
    from tvmconv.runtime.gpu_options import GpuOptions

    if show and not layer:
        raise InputError("--show requires --layer")
    if measure_error and model.suffix == ".so":
        raise InputError(
            f"{model} holds packed weights only, and --measure-error requires the ONNX model"
        )
    gpu = GpuOptions.of(device, None) if measure else built_for(device, target)
    if html is not None:
        from tvmconv.report.charts import require_charts

        require_charts()
    if estimate and model.suffix != ".so":
        threads = estimating.one_thread(threads)
    shapes = build_shapes(model, shape)
    opened = open_model(model, target, threads, shapes, choices, here=measure, gpu=gpu)
    program = program_of(opened, model, shape)
    if show:
        from tvmconv.compile.inspection import kernel_text, layer_kernel

        typer.echo(kernel_text(layer_kernel(program.decisions, program.machine, layer), show))
        return
    decision = find_layer(program.decisions, layer) if layer else None
    arguments: dict[str, Any] = _times(opened, program) if measure else {}
    if measure_error:
        from tvmconv.lab.bench.measured_error import measure_errors

        with progress() as callback:
            arguments["errors"] = measure_errors(
                model, opened, parse_shapes(shape), callback, choices.fold_budget, choices.outputs
            )
    if estimate:
        from tvmconv.lab.estimation.report import estimate_facts, estimates_table

        estimates = estimating.estimated(opened)
        decisions = {(d.layer, d.kernel): d for d in opened.decisions}
        arguments["estimates"] = estimates_table(estimates, decisions), estimate_facts(estimates)
    single = shape is not None and model.suffix == ".so"
    is_whole = not (single or arguments or decision or html)
    found = explain_report(opened if is_whole else program, **arguments, knobs=knobs)
    if html is not None:
        from tvmconv.report.explain_page import explain_page
        from tvmconv.selection.policy import make_policy

        budget = make_policy(error_budget=choices.error_budget).error_budget
        write_text(html, explain_page(found, opened.machine, budget))
        tell(f"wrote {html}")
    if decision is not None:
        found = explain_layer(found, [decision], opened.machine)
    emit(found, as_json, report)


def _times(model: CompiledModel, program: ModelFacts) -> dict[str, Any]:
    from tvmconv.lab.bench.layers import peak_of
    from tvmconv.runtime.timing import random_inputs

    peak, unknown = peak_of(model)
    if unknown:
        tell(unknown)
    inputs = random_inputs(program.inputs)
    times = {(k.call.layer, k.call.kernel): k.seconds for k in model.profile(inputs, repeat=10)}
    return {"seconds": times, "peak": peak and (peak.gflops, peak.read_gbs)}
