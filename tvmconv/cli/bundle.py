"""``tvmconv bundle``: a folder to copy to a device and run there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations, options
from tvmconv.cli.choices import DEFAULT, Choices, with_choices
from tvmconv.cli.output import emit
from tvmconv.cli.values import parse_weights, value


@with_choices
def command(
    model: options.Model,
    output: Annotated[
        Path, destinations.result_folder("-o", "--output", help="The folder to write.")
    ],
    name: Annotated[
        str | None,
        value(
            "NAME",
            "--name",
            help="Name of the files: letters, digits, _, - and .",
            show_default="the model's name",
        ),
    ] = None,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    choices: Choices = DEFAULT,
    weights: options.Weights = "",
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Write a model, its C headers, an example program and a script that compiles and runs it.

    \b
    Examples:
      tvmconv bundle resnet18.onnx -o bundle && sh bundle/run.sh
      tvmconv bundle resnet18.onnx --target x86-64-v3 --weights external -o bundle
    """
    from tvmconv.artifact.bundle import check_bundle
    from tvmconv.cli.opening import open_model
    from tvmconv.report.summary import compile_report

    place = parse_weights(weights) if weights else None
    name = name if name is not None else model.stem
    check_bundle(output, name)
    destinations.check_apart(report, output / f"{name}.so")
    started = time.perf_counter()
    compiled = open_model(model, target, threads, shape, choices)
    library = compiled.bundle(output, name, weights=place)
    seconds = time.perf_counter() - started
    found = compile_report(compiled, library, seconds, {"script": output / "run.sh"})
    emit(found, as_json, report)
