"""The command ``tvmconv``: subcommands, general options, exit codes.

Exit codes: 0 done; 1 an error that the user can fix, reported in one line; 2 wrong usage.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from tvmconv.cli import (
    bench,
    bundle,
    cache,
    check,
    compile,
    cpu,
    dev,
    explain,
    output,
    profile,
    records,
    run,
    targets,
    tune,
)
from tvmconv.cli.command import Debug, Group, Quiet, Verbose, add
from tvmconv.cli.values import flag
from tvmconv.core.errors import TvmconvError
from tvmconv.core.printed import printable

EPILOG = "Exit codes: 0 done, 1 an error you can fix (one line on standard error), 2 wrong usage."


def _warn(message: Warning | str, *_place: Any, **_more: Any) -> None:
    """Print a warning as one line, without its place in the package."""
    output.warn(str(message))


class Main(Group):
    """The whole command; reports tvmconv's errors in one line, with exit code 1."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Begin with the defaults of the general options."""
        output.general.reset()
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a subcommand."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except TvmconvError as error:
            if output.general.debug:
                raise
            sys.stderr.write(f"tvmconv: {printable(' '.join(str(error).split()))}\n")
            raise typer.Exit(1) from None


app = typer.Typer(
    name="tvmconv",
    cls=Main,
    help="Fast convolutional networks from ONNX, on Apache TVM.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its columns cut options on a terminal of 80
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tvmconv.measuring.host import versions

        sys.stdout.write(" ".join(f"{name} {value}" for name, value in versions().items()) + "\n")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool,
        flag(
            "--version",
            help="Versions of tvmconv, TVM and LLVM.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fast convolutional networks from ONNX, on Apache TVM."""


for _name, _function in (
    ("check", check.command),
    ("compile", compile.command),
    ("bundle", bundle.command),
    ("run", run.command),
    ("profile", profile.command),
    ("explain", explain.command),
    ("tune", tune.command),
):
    add(app, _name, _function)
for _name, _group in (
    ("bench", bench.app),
    ("records", records.app),
    ("cache", cache.app),
    ("dev", dev.app),
):
    app.add_typer(_group, name=_name)
for _name, _function in (("cpu", cpu.command), ("targets", targets.command)):
    add(app, _name, _function)
# former names, for one release
add(app, "machine", cpu.command, hidden=True)
app.add_typer(records.app, name="log", hidden=True)


def main() -> None:
    """Entry point of the console script."""
    app()
