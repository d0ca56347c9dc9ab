"""The command ``tvmconv``: verbs, global options, exit codes.

Exit codes: 0 done; 1 an error that the user can mend, told in one line; 2 wrong usage.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tvmconv.cli import bench, bundle, compile, explain, log, machine, profile, run, targets, tune
from tvmconv.core.errors import TvmconvError
from tvmconv.core.printed import printable

EPILOG = "Exit codes: 0 done, 1 an error you can mend (one line on standard error), 2 wrong usage."


def _warn(message: Warning | str, *_place: Any, **_more: Any) -> None:
    """A warning as a line of its own; where in the package it arose tells a user nothing."""
    sys.stderr.write(f"tvmconv: warning: {printable(' '.join(str(message).split()))}\n")


class Verbs(TyperGroup):
    """The group of verbs; turns the package's own errors into one line and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except TvmconvError as error:
            if ctx.params.get("debug"):
                raise
            sys.stderr.write(f"tvmconv: {printable(' '.join(str(error).split()))}\n")
            raise typer.Exit(1) from None


app = typer.Typer(
    name="tvmconv",
    cls=Verbs,
    help="Fast convolutional networks from ONNX, on Apache TVM.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its columns cut words on a terminal of 80
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
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Versions of tvmconv, TVM and LLVM.",
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Fast convolutional networks from ONNX, on Apache TVM."""


for _name, _verb in (
    ("compile", compile.command),
    ("bundle", bundle.command),
    ("run", run.command),
    ("profile", profile.command),
    ("explain", explain.command),
    ("bench", bench.command),
    ("tune", tune.command),
    ("machine", machine.command),
    ("targets", targets.command),
):
    app.command(_name)(_verb)
app.add_typer(log.app, name="log")
for _each in (*app.registered_commands, *log.app.registered_commands):
    # the same sentence as click would take and cut
    _each.short_help = (_each.callback.__doc__ or "").partition("\n")[0]


def main() -> None:
    """Entry point of the console script."""
    app()
