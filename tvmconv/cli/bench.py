"""``tvmconv bench``: measurements next to other libraries, and their saved reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from tvmconv.cli import bench_options, options
from tvmconv.cli.bench_run import run
from tvmconv.cli.command import Group, add, group, names_of
from tvmconv.cli.output import emit
from tvmconv.cli.values import argument

# options of earlier releases that are commands now
_MOVED = {
    "--show": "bench show FILE...",
    "--compare": "bench compare EARLIER LATER",
    "--list": "bench list",
    "--check-model": "dev check-model",
    "--cache-misses": "dev cache-misses",
    "--fit": "dev fit FILE...",
}


class Bench(Group):
    """The commands of bench; without a name it is ``run``, for one release."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` before arguments that do not begin with a command."""
        general = names_of(self.params)
        first = next((arg for arg in args if arg not in general), "--help")
        if first not in (*self.commands, "-h", "--help"):
            for arg in args:
                if (name := arg.partition("=")[0]) in _MOVED:
                    ctx.fail(f"{name} is a command of its own. Use 'tvmconv {_MOVED[name]}'.")
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = group("Measure against other libraries and the CPU's or GPU's peak.", Bench)


def show(
    files: bench_options.Reports,
    relative_to: bench_options.RelativeTo = "",
    csv: options.Csv = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Print saved reports again, joined; measures nothing.

    \b
    Examples:
      tvmconv bench show a.json b.json --csv both.csv
      tvmconv bench show a.json --relative-to direct
    """
    from tvmconv.lab.bench.report import bench_report
    from tvmconv.lab.bench.result import joined, read_saved

    result = joined([read_saved(path) for path in files])
    emit(bench_report(result, against=relative_to), as_json, report, csv)


def compare(
    earlier: Annotated[Path, argument("EARLIER", help="Report to compare with.")],
    later: Annotated[list[Path], argument("LATER...", help="Reports to compare.")],
    relative_to: bench_options.RelativeTo = "",
    csv: options.Csv = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """Compare saved reports: the ratio of each row's time to an earlier time.

    \b
    Examples:
      tvmconv bench compare yesterday.json today.json
      tvmconv bench compare yesterday.json today.json --csv ratios.csv
    """
    from tvmconv.lab.bench.report import bench_report
    from tvmconv.lab.bench.result import joined, read_saved

    result = joined([read_saved(path) for path in later])
    emit(bench_report(result, read_saved(earlier), relative_to), as_json, report, csv)


def list_(
    baseline_python: bench_options.BaselinePython = None,
    as_json: options.Json = False,
    report: options.Report = None,
) -> None:
    """List the layer suites, and the baselines with their versions.

    \b
    Examples:
      tvmconv bench list
      tvmconv bench list --baseline-python onnxruntime=other/bin/python
    """
    from tvmconv.lab.bench.listing import list_report

    emit(list_report(baseline_python or []), as_json, report)


for _name, _function in (("run", run), ("show", show), ("compare", compare), ("list", list_)):
    add(app, _name, _function)
