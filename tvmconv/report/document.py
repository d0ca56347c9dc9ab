"""One structure for every report: the terminal, JSON and CSV are three views of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from tvmconv.core.printed import printable
from tvmconv.report.table import Table, bytes_text, seconds_text

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
# widths of views without a terminal: short ones, and those with wide tables
PIPE_WIDTH, WIDE_PIPE = 120, 200
# parts of the names of facts, and their titles
_TITLES = {
    "seconds": "time",
    "bytes": "size",
    "gflop": "GFLOP",
    "gflops": "GFLOP/s",
    "gbs": "GB/s",
    "isa": "ISA",
}
# facts in bytes whose names do not say so
_BYTES = {"memory_budget"}


@dataclass(frozen=True)
class Report:
    """The result of a subcommand.

    Parameters
    ----------
    kind
        The subcommand, by which a reader of the JSON knows its fields.
    title
        Heading on the terminal.
    facts
        Single values, printed as ``name: value`` and stored under their names.
    tables
        The tables, in order.
    notes
        Sentences printed below the tables.
    data
        Plain data for the JSON only (all samples, machine header).
    brief
        Short view of the terminal. Without it, or with ``-v``, the terminal shows everything.
    details
        Reports about single parts, which the terminal shows after everything else.
    """

    kind: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    brief: Report | None = None
    details: tuple[Report, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data holding everything that the full view shows, unrounded."""
        return {
            "schema": SCHEMA_VERSION,
            "kind": self.kind,
            "title": self.title,
            **self.facts,
            **{table.name: [dict(row) for row in table.rows] for table in self.tables},
            "notes": list(self.notes),
            **self.data,
        }

    def __str__(self) -> str:
        """The short view as plain text, if the report has one; else :meth:`full`."""
        return self.full() if self.brief is None else self.brief.full(PIPE_WIDTH, short=True)

    def full(self, width: int = WIDE_PIPE, short: bool = False) -> str:
        """All facts and tables as plain text, without colors."""
        from rich.console import Console

        console = Console(width=width, file=StringIO(), no_color=True)
        with console.capture() as captured:
            self.print(console, short)
        return captured.get()

    def print(self, console: Console, short: bool = False) -> None:
        """Print title, facts, tables, notes and details.

        In a short view, the title and each fact are one line. Long texts are cut in the middle.
        """
        from rich.text import Text

        from tvmconv.report.lines import Lines, cut

        title = printable(self.title)
        console.print(Text(cut(title, console.width) if short else title, style="bold"))
        facts = {
            fact_title(name): printable(fact_text(name, value))
            for name, value in self.facts.items()
            if value is not None
        }
        indent = max(map(len, facts), default=0) + 2
        room = max(console.width - indent, 1)
        for label, text in facts.items():
            parts = [Text(cut(text, room))] if short else Text(text).wrap(console, room)
            for i, part in enumerate(parts):
                head = "" if i else label
                console.print(Text.assemble((head.ljust(indent), "dim"), part))
        for table in self.tables:
            if table.shown:
                console.print()
                console.print(Lines(table))
        for note in self.notes:
            console.print(Text(printable(note)))
        for detail in self.details:
            console.print()
            detail.print(console)


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
