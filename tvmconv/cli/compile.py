"""``tvmconv compile``: ONNX in, shared object and manifest out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations, options
from tvmconv.cli.choices import DEFAULT, Choices, with_choices
from tvmconv.cli.output import emit
from tvmconv.cli.values import parse_weights


@with_choices
def command(
    model: options.OnnxModel,
    output: options.ModelOutput,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    choices: Choices = DEFAULT,
    header: Annotated[
        bool, options.OUTPUT.flag("--header", help="Also write the model's C header and tvmconv.h.")
    ] = False,
    weights: options.Weights = "embedded",
    emit_sources: Annotated[
        Path | None,
        destinations.result_folder(
            "--emit-sources", help="Also write the C and objects that are linked."
        ),
    ] = None,
    device: options.GpuIndex = 0,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Build a model and save it as a .so, with a copy of its manifest (.json).

    \b
    Examples:
      tvmconv compile resnet18.onnx -o resnet18.so
      tvmconv compile net.onnx -o net.so --shape input:1x3x224x224 --threads 2
      tvmconv compile net.onnx -o net.so --shape x:1x3x48x160,320,640
      tvmconv compile net.onnx -o net.so --batch any
      tvmconv compile net.onnx -o net.so --target x86-64-v3
      tvmconv compile net.onnx -o net.so --target x86-64-v3,x86-64-v4
      tvmconv compile net.onnx -o net.so --target cuda:sm_90 --precision tf32
      tvmconv compile net.onnx -o net.so --memory-budget 4MiB --error-budget 3e-5
      tvmconv compile net.onnx -o net.so --weights external --header
      tvmconv compile net.onnx -o net.so --emit-sources parts
    """
    from tvmconv.artifact.saving import check_destination
    from tvmconv.cli.gpus import built_for
    from tvmconv.cli.opening import open_model
    from tvmconv.core.errors import InputError
    from tvmconv.report.summary import compile_report

    if model.suffix == ".so":
        raise InputError(f"compile requires an ONNX model, got {model}")
    gpu = built_for(device, target)
    place = parse_weights(weights)
    destinations.check_apart(report, output)
    check_destination(output, separate=place == "external", header=header)
    started = time.perf_counter()
    compiled = open_model(model, target, threads, shape, choices, gpu=gpu)
    compiled.save(output, weights=place, header=header)
    others = {"weights": output.with_suffix(".weights")} if place == "external" else {}
    if header:
        others |= {"header": output.with_suffix(".h"), "interface": output.with_name("tvmconv.h")}
    if emit_sources is not None:
        compiled.keep(emit_sources)
        others["parts"] = emit_sources
    seconds = time.perf_counter() - started
    emit(compile_report(compiled, output, seconds, others), as_json, report)
