"""``tvmconv profile``: where the time of one call goes, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations, options
from tvmconv.cli.output import emit, write_text
from tvmconv.cli.values import number
from tvmconv.cli.where import HERE, Where, with_where
from tvmconv.core.plain_data import json_text


@with_where
def command(
    model: options.Model,
    inputs: options.Inputs = None,
    repeat: Annotated[int, number(1, help="Number of timed calls.")] = 20,
    seed: options.Seed = 0,
    chrome_trace: Annotated[
        Path | None,
        destinations.result_file(
            "--chrome-trace", help="Write a trace for Perfetto or chrome://tracing."
        ),
    ] = None,
    csv: options.Csv = None,
    where: Where = HERE,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Time every kernel of a model and compare it with the measured peak.

    \b
    Examples:
      tvmconv profile resnet18.so
      tvmconv profile resnet18.onnx --repeat 50 --chrome-trace trace.json
      tvmconv profile resnet18.so --rpc-tracker 127.0.0.1:9190 --rpc-key lab
    """
    from tvmconv.cli.opening import called
    from tvmconv.lab.bench.layers import profile_report
    from tvmconv.measuring.running import read_inputs

    given = read_inputs(inputs or [])
    with called(model, where, given, seed) as (compiled, values):
        found = profile_report(compiled, values, repeat)
    if chrome_trace is not None:
        write_text(chrome_trace, json_text({"traceEvents": found.data["events"]}))
    emit(found, as_json, report, csv)
