"""``tvmconv compile``: ONNX in, shared object and manifest out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Optional

import typer

from tvmconv.cli import destinations, options
from tvmconv.cli.choices import DEFAULT, Choices, with_choices
from tvmconv.cli.output import emit


@with_choices
def command(
    model: options.OnnxModel,
    output: options.ModelOutput,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    choices: Choices = DEFAULT,
    header: Annotated[
        bool,
        typer.Option(
            "--header", help="Also write the model's C header (.h), and tvmconv.h for it."
        ),
    ] = False,
    weights: options.Weights = "inside",
    keep: Annotated[
        Optional[Path],  # noqa: UP045
        destinations.result_folder(
            "--keep", help="Also write the C and the objects that the .so is linked from."
        ),
    ] = None,
    device: options.GpuIndex = 0,
    as_json: options.Json = False,
    save: options.Save = None,
) -> None:
    """Build a model and save it as a .so, with a readable copy of its manifest (.json) beside it.

    \b
    Examples:
      tvmconv compile resnet18.onnx -o resnet18.so
      tvmconv compile net.onnx -o net.so --shape input:1x3x224x224 --threads 2
      tvmconv compile net.onnx -o net.so --target x86-64-v3
      tvmconv compile net.onnx -o net.so --target cuda:sm_90 --precision tf32
      tvmconv compile net.onnx -o net.so --memory-budget 4MiB --error-budget 3e-5
      tvmconv compile net.onnx -o net.so --header --weights separate --keep parts
    """
    from tvmconv.artifact.saving import check_destination
    from tvmconv.cli.gpus import built_for
    from tvmconv.cli.opening import open_model
    from tvmconv.core.errors import InputError
    from tvmconv.report.summary import compile_report

    if model.suffix == ".so":
        raise InputError(f"compile requires an ONNX model, got {model}")
    gpu = built_for(device, target)
    place = options.parse_weights(weights)
    check_destination(output, separate=place == "separate", header=header)
    started = time.perf_counter()
    compiled = open_model(model, target, threads, shape, choices, gpu=gpu)
    compiled.save(output, weights=place, header=header)
    others = {"weights": output.with_suffix(".weights")} if place == "separate" else {}
    if header:
        others |= {"header": output.with_suffix(".h"), "interface": output.with_name("tvmconv.h")}
    if keep is not None:
        compiled.keep(keep)
        others["parts"] = keep
    seconds = time.perf_counter() - started
    emit(compile_report(compiled, output, seconds, others), as_json, save)
