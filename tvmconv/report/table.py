"""Tables of reports: rows of plain values under typed columns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.core.printed import printable

_BYTES = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
# keys of saved results, under other headings
_HEADINGS = {"contender": "implementation"}
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


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
    leaves
        Order in which a narrow terminal cuts or drops columns of a table with one line for each
        row: the largest first; a column with 0 stays.
    """

    key: str
    title: str
    spec: str = ""
    scale: float = 1.0
    leaves: int = 0

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell on the terminal; ``-`` if the row lacks the value."""
        value = row.get(self.key)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return printable(str(value))
        return format(value * self.scale if self.scale != 1.0 else value, self.spec)


# its key is the key of saved reports
IMPLEMENTATION = Column("contender", "implementation")


def plain(*keys: str) -> tuple[Column, ...]:
    """A column for each key, with the key as heading and without a format."""
    return tuple(Column(key, _HEADINGS.get(key, key)) for key in keys)


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
        Columns on the terminal.
    rows
        All rows, as JSON and CSV have them.
    brief
        Rows of the terminal, if they differ.
    one_line
        Whether each row is one line on a terminal of any width, with cells cut or left out.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, Any]]
    brief: Sequence[Mapping[str, Any]] | None = None
    one_line: bool = False

    @property
    def shown(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the terminal."""
        return self.rows if self.brief is None else self.brief

    def cells(self) -> list[list[str]]:
        """The text of each cell of the terminal."""
        return [[column.text(row) for column in self.columns] for row in self.shown]

    def is_numeric(self, column: int) -> bool:
        """Whether a column has numbers on the terminal."""
        key = self.columns[column].key
        return any(isinstance(row.get(key), int | float) for row in self.shown)

    def to_csv(self) -> str:
        """All values of the rows, unrounded; a heading line first."""
        stream = io.StringIO()
        keys = [column.key for column in self.columns]
        keys += sorted({key for row in self.rows for key in row} - set(keys))
        writer = csv.DictWriter(stream, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return stream.getvalue()


def grouped(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], sums: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Rows with equal values of ``keys`` as one, under the name of the first, with a ``count``.

    Times and the columns ``sums`` are added up. Measured errors are the largest of the group.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    made = []
    for members in groups.values():
        first = dict(members[0])
        for key in ("seconds", "predicted_seconds", *sums):
            if first.get(key) is not None:
                first[key] = sum(row[key] or 0 for row in members)
        if first.get("error_measured") is not None:
            first["error_measured"] = max(row["error_measured"] for row in members)
        made.append({**first, "count": f"x{len(members)}" if len(members) > 1 else ""})
    return made


def bytes_text(count: float) -> str:
    """A number of bytes for people."""
    for size, unit in _BYTES:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """A time for people, with four digits."""
    size, unit = next((scale for scale in _SECONDS if seconds >= scale[0]), _SECONDS[-1])
    return f"{seconds / size:.4g} {unit}"
