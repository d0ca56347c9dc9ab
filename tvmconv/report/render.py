"""The terminal view of a report."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from tvmconv.report.fitting import Fitted

if TYPE_CHECKING:
    from tvmconv.report.document import Report


def print_report(report: Report, console: Console | None = None) -> None:
    """Print a report's title, facts, tables and notes."""
    (console or Console()).print(renderable(report))


def report_text(report: Report, width: int = 200) -> str:
    """The terminal view as plain text, without colours."""
    console = Console(width=width, file=StringIO(), no_color=True)
    with console.capture() as captured:
        print_report(report, console)
    return captured.get()


def renderable(report: Report) -> Group:
    """A report as something that rich prints."""
    parts: list[Any] = [Text(report.title, style="bold")]
    if report.facts:
        grid = RichTable.grid(padding=(0, 2))
        for name, value in report.facts.items():
            grid.add_row(Text(name.replace("_", " "), style="dim"), Text(_fact(value)))
        parts.append(grid)
    parts += [Fitted(table) for table in report.tables]
    parts += [Text(note) for note in report.notes]
    return Group(*parts)


def _fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact, value))
    return str(value)
