"""Tables of reports: rows of plain values under typed columns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvmconv.core.printed import printable


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
        All rows, as JSON and CSV have them.
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


class Printable(Protocol):
    """What the terminal shows of a report; see :class:`~tvmconv.report.document.Report`."""

    @property
    def title(self) -> str:
        """Heading."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Single values by name."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, in order."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the tables."""
