"""``tvmconv bench``: models or layers beside other libraries, in interleaved rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tvmconv.cli import options
from tvmconv.cli.output import emit, tell, write_text

if TYPE_CHECKING:
    from tvmconv.report.bench_result import BenchResult


def command(
    models: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(help="ONNX models.", show_default=False),
    ] = None,
    suite: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="A layer suite by name (see --list) or a text file; may be repeated."),
    ] = None,
    layer: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="One layer as a problem string; may be repeated."),
    ] = None,
    peers: Annotated[
        str, typer.Option(help="Libraries to compare with, by name (see --list), all or none.")
    ] = "all",
    peer_python: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="[PEER=]PATH",
            envvar="TVMCONV_PEER_PYTHON",
            help="Python of the environment that holds the peers, or one peer; may be repeated.",
        ),
    ] = None,
    target: options.Target = "native",
    threads: Annotated[str, typer.Option(help="Thread counts, e.g. 1,2.")] = "1",
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.001, help="Time for one peer in one round.")
    ] = 0.2,
    shape: options.Shape = None,
    compare: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Earlier --save file; adds a ratio for every row."),
    ] = None,
    csv: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the table as CSV."),
    ] = None,
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
      tvmconv bench --list
    """
    from tvmconv.errors import InputError
    from tvmconv.report import bench as benches

    if list_names:
        emit(benches.list_report(peer_python or []), as_json, save)
        return
    if not (models or suite or layer):
        raise InputError("nothing to measure; give a model, --suite NAME or --layer PROBLEM")
    plan = benches.make_plan(
        models=models or [],
        suites=suite or [],
        layers=layer or [],
        peers=peers,
        target=target,
        threads=options.integers(threads, "--threads"),
        rounds=rounds,
        seconds=seconds,
        shapes=options.parse_shapes(shape) or {},
        peer_python=peer_python or [],
    )
    earlier = benches.read_saved(compare) if compare else None

    def checkpoint(result: BenchResult) -> None:
        if save is not None:
            write_text(save, json.dumps(result.to_json()))

    result = benches.run_plan(plan, tell, checkpoint)
    report = benches.bench_report(result, earlier)
    if csv is not None:
        write_text(csv, report.tables[0].to_csv())
    emit(report, as_json, save)
