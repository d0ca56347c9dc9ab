"""The terminal view of a report."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from tvmconv.core.printed import printable
from tvmconv.report.fitting import FittingTable
from tvmconv.report.lines import Lines, cut
from tvmconv.report.table import bytes_text, seconds_text

if TYPE_CHECKING:
    from tvmconv.report.brief import Brief
    from tvmconv.report.table import Printable, Table

# width of short views without a terminal
PIPE_WIDTH = 120
# parts of the names of facts, and their titles
_TITLES = {
    "seconds": "time",
    "bytes": "size",
    "gflop": "GFLOP",
    "gflops": "GFLOP/s",
    "gbs": "GB/s",
    "isa": "ISA",
    "requantise": "requantize",
}
# facts in bytes whose names do not say so
_BYTES = {"memory_budget"}


def print_report(report: Printable, console: Console | None = None) -> None:
    """Print a report's title, facts, tables and notes."""
    (console or Console()).print(renderable(report))


def report_text(report: Printable, width: int = 200) -> str:
    """The terminal view as plain text, without colors."""
    console = Console(width=width, file=StringIO(), no_color=True)
    with console.capture() as captured:
        print_report(report, console)
    return captured.get()


def print_brief(brief: Brief, console: Console) -> None:
    """Print the short view of a report."""
    console.print(Text(cut(printable(brief.title), console.width), style="bold"))
    indent = max(map(len, brief.head), default=0) + 2
    for label, text in brief.head.items():
        shown = cut(printable(text), console.width - indent)
        console.print(Text.assemble((f"{label:<{indent}}", "dim"), shown))
    for table in brief.tables:
        if table.shown:
            console.print()
            console.print(_view(table))
    for note in brief.notes:
        console.print(Text(printable(note)))


def brief_text(brief: Brief, width: int) -> str:
    """The short view as plain text, without colors."""
    console = Console(width=width, file=StringIO(), no_color=True)
    with console.capture() as captured:
        print_brief(brief, console)
    return captured.get()


def renderable(report: Printable) -> Group:
    """A report as something that rich prints."""
    parts: list[Any] = [Text(printable(report.title), style="bold")]
    if report.facts:
        grid = RichTable.grid(padding=(0, 2))
        for name, value in report.facts.items():
            if value is not None:
                title = Text(fact_title(name), style="dim")
                grid.add_row(title, Text(printable(fact_text(name, value))))
        parts.append(grid)
    parts += [_view(table) for table in report.tables if table.shown]
    parts += [Text(printable(note)) for note in report.notes]
    return Group(*parts)


def _view(table: Table) -> Lines | FittingTable:
    return Lines(table) if table.one_line else FittingTable(table)


def fact_title(name: str) -> str:
    """The name of a fact as a label."""
    return " ".join(_TITLES.get(part, part) for part in name.split("_"))


def fact_text(name: str, value: object) -> str:
    """The value of a fact, in the unit that its name ends in."""
    parts = name.split("_")
    if isinstance(value, dict):
        return ", ".join(f"{count} {what}" for what, count in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(fact_text(name, item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if "seconds" in parts:
            return seconds_text(value)
        if "bytes" in parts or name in _BYTES:
            return bytes_text(value)
        if "share" in parts:
            return f"{value:.1%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
