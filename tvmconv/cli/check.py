"""``tvmconv check``: whether a model can be built, and what is missing."""

from __future__ import annotations

import typer

from tvmconv.cli import options
from tvmconv.cli.output import emit
from tvmconv.cli.values import fold_bytes, parse_outputs, parse_shape_lists


def command(
    model: options.OnnxModel,
    shape: options.Shape = None,
    outputs: options.Outputs = None,
    batch: options.Batch = None,
    fold_budget: options.FoldBudget = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Check a model without building it: refused nodes and missing sizes, all at once.

    The exit code is 1 if the model cannot be built.

    \b
    Examples:
      tvmconv check model.onnx
      tvmconv check model.onnx --shape images:1x3x640x640
      tvmconv check model.onnx --dim height=640 --dim width=640 --json
      tvmconv check model.onnx --shape x:1x3x48x160,320
      tvmconv check model.onnx --outputs boxes,scores
      tvmconv check model.onnx --batch any
    """
    from tvmconv.core.errors import InputError
    from tvmconv.frontend import ShapedModel
    from tvmconv.frontend.check import check
    from tvmconv.report.checked import check_report

    if model.suffix == ".so":
        raise InputError(f"check requires an ONNX model, got {model}")
    ends, budget = parse_outputs(outputs), fold_bytes(fold_budget)
    source = ShapedModel(model, parse_shape_lists(shape), budget, ends)
    results = [
        check(model, shapes=each, outputs=ends, fold_budget=budget, batch=batch)
        for each in source.shapes
    ]
    # the first shape that cannot be built, or the first of all
    found = next((each for each in results if not each.ok), results[0])
    emit(check_report(found), as_json, report)
    if not found.ok:
        raise typer.Exit(1)
