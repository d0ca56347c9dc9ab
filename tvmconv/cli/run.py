"""``tvmconv run``: one or more calls, with the outputs described or compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tvmconv.cli import destinations, options
from tvmconv.cli.output import emit
from tvmconv.cli.values import flag, number, value
from tvmconv.cli.where import HERE, Where, with_where


@with_where
def command(
    model: options.Model,
    inputs: options.Inputs = None,
    repeat: Annotated[int, number(1, help="Number of timed calls, after one warm-up call.")] = 10,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        destinations.result_file(
            "-o", "--output", suffix=".npz", help="Write the outputs to a file."
        ),
    ] = None,
    compare_onnxruntime: Annotated[
        bool, flag("--compare-onnxruntime", help="Compare values and latency with onnxruntime.")
    ] = False,
    onnx: Annotated[
        Path | None, value("FILE", help="ONNX model of a .so (requires --compare-onnxruntime).")
    ] = None,
    emulate: Annotated[
        bool, flag("--emulate", help="Call a .so for another CPU once, under QEMU.")
    ] = False,
    where: Where = HERE,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Run a model on given or random inputs.

    \b
    Examples:
      tvmconv run resnet18.so --repeat 100
      tvmconv run resnet18.onnx --input input=photo.npy -o result.npz
      tvmconv run resnet18.onnx --compare-onnxruntime --no-winograd
      tvmconv run resnet18.so --rpc 127.0.0.1:9090
      tvmconv run resnet18.so --emulate
      tvmconv run resnet50.cuda.so --device 1 --no-cuda-graph
    """
    from tvmconv.cli.opening import called, refuse_choices
    from tvmconv.core.errors import InputError
    from tvmconv.measuring.running import emulated_report, read_inputs, run_report

    if compare_onnxruntime and where.is_remote and not emulate:
        raise InputError("--compare-onnxruntime cannot be combined with --rpc")
    original = onnx or (None if model.suffix == ".so" else model)
    if compare_onnxruntime and original is None:
        raise InputError(
            f"--compare-onnxruntime requires the ONNX model of {model}. Add --onnx FILE."
        )
    if onnx is not None and not compare_onnxruntime:
        raise InputError("--onnx requires --compare-onnxruntime")
    if onnx is not None and not onnx.is_file():
        raise InputError(f"--onnx {onnx} is not a file. Name the ONNX model of {model}.")
    reference = original if compare_onnxruntime else None
    given = read_inputs(inputs or [])
    if emulate:
        if model.suffix != ".so":
            raise InputError(
                f"--emulate requires a saved .so, got {model}. Compile the model first."
            )
        if where.device or where.cuda_graph is not None:
            raise InputError("--emulate cannot be combined with --device or --cuda-graph")
        if where.is_remote:
            raise InputError("--emulate cannot be combined with --rpc")
        refuse_choices(model, where.target, where.shapes, where.choices)
        emit(emulated_report(model, given, seed, output, reference), as_json, report)
        return
    with called(model, where, given, seed) as (compiled, values):
        found = run_report(compiled, values, repeat, output, reference)
    emit(found, as_json, report)
