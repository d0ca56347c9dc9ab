"""The short view of a report, which the terminal shows first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvmconv.report.table import Table


@dataclass(frozen=True)
class Brief:
    """A few lines, a table with a line for each row, and a pointer to the rest.

    Parameters
    ----------
    title
        The first line.
    head
        A few texts with their labels. A text that is too long is cut in the middle.
    tables
        The main table, and tables that the user asked for.
    notes
        Sentences below the tables.
    """

    title: str
    head: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
