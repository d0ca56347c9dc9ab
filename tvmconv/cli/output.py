"""What a verb prints: results on standard output, everything else on standard error."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmconv.core.errors import TvmconvError
from tvmconv.report.document import Report

ProgressCallback = Callable[[str, int, int], None]


def emit(report: Report, as_json: bool, save: Path | None = None) -> None:
    """Print a report as tables or JSON, and write the JSON to a file where asked.

    Raises
    ------
    TvmconvError
        If the file cannot be written.
    """
    text = json.dumps(report.to_json(), indent=1, ensure_ascii=False)
    if save is not None:
        write_text(save, text + "\n")
    if as_json:
        sys.stdout.write(text + "\n")
        return
    from rich.console import Console

    from tvmconv.report.render import print_report

    # a pipe has no width of its own; 80 columns would fold every table
    width = None if sys.stdout.isatty() else 200
    print_report(report, Console(width=width))


def write_text(path: Path, text: str) -> None:
    """Write a result file, compressed where its name ends in ``.gz``.

    Raises
    ------
    TvmconvError
        If the operating system refuses.
    """
    data = text.encode()
    try:
        content = gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
        if not path.is_file():
            path.write_bytes(content)
            return
        # a long run writes it again and again; who is ended meanwhile leaves the last one whole
        written = path.with_name(f".{path.name}.{os.getpid()}.new")
        written.write_bytes(content)
        written.replace(path)
    except OSError as error:
        raise TvmconvError(f"cannot write {path}: {error.strerror}") from None


def tell(message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(message + "\n")


@contextmanager
def progress() -> Iterator[ProgressCallback | None]:
    """A callback ``(stage, done, total)`` that draws a bar; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    tasks: dict[str, int] = {}
    with bar:

        def update(stage: str, done: int = 0, total: int = 0) -> None:
            if stage not in tasks:
                tasks[stage] = int(bar.add_task(stage, total=total or None))
            bar.update(tasks[stage], completed=done, total=total or None)  # type: ignore[arg-type]

        yield update
