"""Printing: results on standard output, everything else on standard error."""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tvmconv.core.errors import TvmconvError
from tvmconv.core.plain_data import json_text
from tvmconv.core.printed import printable
from tvmconv.core.results import write_result
from tvmconv.report.document import PIPE_WIDTH, WIDE_PIPE, Report

ProgressCallback = Callable[[str, int, int], None]


@dataclass
class General:
    """The general options of this process, by their names."""

    verbose: bool = False
    quiet: bool = False
    debug: bool = False

    def reset(self) -> None:
        """Forget the options of an earlier command in this process."""
        vars(self).update(vars(General()))


general = General()


def emit(report: Report, as_json: bool, save: Path | None = None, csv: Path | None = None) -> None:
    """Print a report as tables or JSON, and write JSON and the first table to files if wanted."""
    if csv is not None:
        write_text(csv, report.tables[0].to_csv())
    text = json_text(report.to_json(), indent=1)
    if save is not None:
        write_text(save, text + "\n")
    if as_json:
        with _standard_output():
            sys.stdout.write(text + "\n")
        return
    if general.quiet:
        return
    from rich.console import Console

    short = None if general.verbose else report.brief
    # a pipe has no width, and 80 columns would fold every table
    piped = PIPE_WIDTH if short else WIDE_PIPE
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else piped
    with _standard_output():
        (short or report).print(Console(width=width), short=short is not None)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Flush all output at the end, and report output that cannot be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has stopped reading
    except OSError as error:
        # otherwise Python tries to write the rest again when it exits
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        raise TvmconvError(f"cannot write the standard output: {error.strerror}") from None


def write_text(path: Path, text: str) -> None:
    """Write a result file, compressed if its name ends in ``.gz``."""
    data = text.encode(errors="surrogateescape")
    write_result(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def tell(message: str) -> None:
    """Print one line on standard error, unless the command is quiet."""
    if not general.quiet:
        sys.stderr.write(printable(message) + "\n")


def warn(message: str) -> None:
    """Print a warning on standard error, unless the command is quiet."""
    if not general.quiet:
        sys.stderr.write(f"tvmconv: warning: {printable(' '.join(message.split()))}\n")


@contextmanager
def progress() -> Iterator[ProgressCallback | None]:
    """A callback ``(stage, done, total)`` that draws a bar; None without a terminal."""
    if general.verbose:
        with _stages() as callback:
            yield callback
        return
    if general.quiet or not sys.stderr.isatty():
        yield None
        return
    if general.quiet:
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    tasks: dict[str, int] = {}
    with bar:

        def update(stage: str, done: int = 0, total: int = 0) -> None:
            if stage not in tasks:
                tasks[stage] = int(bar.add_task(printable(stage), total=total or None))
            bar.update(tasks[stage], completed=done, total=total or None)  # type: ignore[arg-type]

        yield update


@contextmanager
def _stages() -> Iterator[ProgressCallback]:
    """A callback that prints the seconds of each stage when the next stage begins."""
    began: dict[str, float] = {}

    def close() -> None:
        for stage, start in began.items():
            tell(f"{stage}: {time.perf_counter() - start:.2f} s")
        began.clear()

    def update(stage: str, _done: int = 0, _total: int = 0) -> None:
        if stage not in began:
            close()
            began[stage] = time.perf_counter()

    yield update
    close()
