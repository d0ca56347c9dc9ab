"""``tvmconv cache``: shows, clears and prunes the cache."""

from __future__ import annotations

from typing import Annotated

import typer

from tvmconv.cli import options
from tvmconv.cli.command import Debug, Group, Quiet, Verbose, add
from tvmconv.cli.output import emit, tell
from tvmconv.cli.values import byte_count, value

app = typer.Typer(cls=Group)


@app.callback(invoke_without_command=True)
def show(
    ctx: typer.Context,
    as_json: options.Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show what later builds reuse, and its size; clear or prune it.

    \b
    Examples:
      tvmconv cache
      tvmconv cache prune --size 500MiB
    """
    if ctx.invoked_subcommand is None:
        from tvmconv.report.cache import cache_report

        emit(cache_report(), as_json)


def clear() -> None:
    """Remove everything that is cached.

    \b
    Examples:
      tvmconv cache clear
    """
    _prune(0)


def prune(
    size: Annotated[str, value("BYTES", "--size", help="Size of the rest, such as 500MiB.")],
) -> None:
    """Remove what was not used for the longest time.

    \b
    Examples:
      tvmconv cache prune --size 500MiB
    """
    _prune(byte_count(size, "--size"))


def _prune(limit: int) -> None:
    from tvmconv.cache import entries
    from tvmconv.report.table import bytes_text

    removed = entries.prune(limit)
    tell(f"removed {len(removed)} entries, {bytes_text(sum(entry.bytes for entry in removed))}")


for _function in (clear, prune):
    add(app, _function.__name__, _function)
