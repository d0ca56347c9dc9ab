"""One structure for every report: the terminal, JSON and CSV are three views of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmconv.report.brief import Brief
from tvmconv.report.table import Table

SCHEMA_VERSION = 1


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
    """

    kind: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    brief: Brief | None = None

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
        from tvmconv.report.render import PIPE_WIDTH, brief_text

        return self.full() if self.brief is None else brief_text(self.brief, PIPE_WIDTH)

    def full(self) -> str:
        """All facts and tables as plain text."""
        from tvmconv.report.render import report_text

        return report_text(self)
