"""``tvmconv explain``: which algorithm every layer got, and why."""

from __future__ import annotations

from tvmconv.cli import options
from tvmconv.cli.output import emit


def command(
    model: options.Model,
    target: options.Target = "native",
    threads: options.Threads = None,
    shape: options.Shape = None,
    as_json: options.Json = False,
    save: options.Save = None,
) -> None:
    """Show the decision for every layer, the rejected candidates and the memory plan.

    \b
    Examples:
      tvmconv explain resnet18.so
      tvmconv explain resnet18.onnx --target x86-64-v3 --json
    """
    from tvmconv.cli.opening import open_model
    from tvmconv.report.explain import explain_report

    emit(explain_report(open_model(model, target, threads, shape)), as_json, save)
