"""``tvmconv targets``: the targets that have a name."""

from __future__ import annotations

from tvmconv.cli import options
from tvmconv.cli.output import emit


def command(as_json: options.Json = False, report: options.Report = None) -> None:
    """List the targets that have a name.

    \b
    Examples:
      tvmconv targets
      tvmconv targets --json
      tvmconv compile model.onnx --target x86-64-v3 -o model.so
      tvmconv compile model.onnx --target "llvm -mcpu=haswell" -o model.so
    """
    from tvmconv.machines.listing import targets
    from tvmconv.report.document import Report
    from tvmconv.report.table import Table, plain

    rows = [
        {
            "target": info.name,
            "architecture": info.architecture,
            "instructions": info.isa,
            "features": " ".join(info.features) or "-",
        }
        for info in targets()
    ]
    columns = plain("target", "architecture", "instructions")
    notes = (
        "native is this CPU, cuda this GPU. An LLVM string names any other CPU: "
        "'llvm -mcpu=haswell', 'llvm -mtriple=aarch64-linux-musl -mcpu=cortex-a72'.",
        "--json lists the CPU features that each target needs.",
    )
    table = Table("targets", "Targets", columns, rows)
    emit(Report("targets", f"{len(rows)} named targets", {}, (table,), notes), as_json, report)
