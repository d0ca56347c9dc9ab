"""One structure for every report: the terminal, JSON and CSV are three views of it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmconv.core.printed import printable

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    key
        Name of the value in a row and in JSON; units are part of it (``milliseconds``).
    title
        Heading on the terminal.
    spec
        ``format()`` specification of the terminal view; empty prints the value as it is.
    scale
        Factor applied for the terminal only, e.g. 100 for a share shown in percent.
    """

    key: str
    title: str
    spec: str = ""
    scale: float = 1.0

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell as the terminal shows it; ``-`` where the row has no value."""
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return printable(str(value))
        return format(value * self.scale if self.scale != 1.0 else value, self.spec)


@dataclass(frozen=True)
class Table:
    """Rows of plain values under typed columns.

    Parameters
    ----------
    name
        Key of the table in JSON.
    title
        Heading on the terminal.
    columns
        What the terminal shows of a row.
    rows
        All rows; those of JSON and CSV.
    brief
        Rows of the terminal where they are others.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    brief: Sequence[Mapping[str, Any]] | None = None

    @property
    def shown(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the terminal."""
        return self.rows if self.brief is None else self.brief

    def to_csv(self) -> str:
        """All values of the rows, unrounded; a heading line first."""
        stream = io.StringIO()
        keys = [column.key for column in self.columns]
        keys += sorted({key for row in self.rows for key in row} - set(keys))
        writer = csv.DictWriter(stream, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return stream.getvalue()


@dataclass(frozen=True)
class Report:
    """What a verb has to say.

    Parameters
    ----------
    kind
        The verb; tells a reader of the JSON what else to expect.
    title
        Heading on the terminal.
    facts
        Single values, printed as ``name: value`` and stored under their names.
    tables
        The tables, in order.
    notes
        Sentences printed below the tables.
    data
        More plain data that only the JSON carries (all samples, machine header).
    """

    kind: str
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data holding everything the terminal shows, unrounded."""
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
        """The terminal view as plain text."""
        from tvmconv.report.render import report_text

        return report_text(self)
