"""A table on a terminal of any width: a frame where it fits, else lines under each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from tvmconv.core.printed import printable

if TYPE_CHECKING:
    from tvmconv.report.table import Table


# spaces between cells without a frame
_GAP = 2
# a bar and two spaces for each cell of a frame
_FRAME = 3
# a name that needs more of the width has a separate line
_NAME_SHARE = 0.4
# longer texts leave the line first
_LONG = 16


class FittingTable:
    """A table that is at most as wide as the console.

    If a frame does not fit, the table has none. Long texts, the longest first, and then the last
    columns follow their row as ``title value``. Problem strings stay whole, for search and copy.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.cells = table.cells()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The frame, or title, heading and rows without a frame."""
        widths = [
            max([_heading_width(column.title), *(cell_len(row[i]) for row in self.cells)])
            for i, column in enumerate(self.table.columns)
        ]
        if sum(widths) + _FRAME * len(widths) + 1 <= options.max_width:
            yield self._frame()
            return
        yield Text(printable(self.table.title), style="italic")
        yield from self._lines(widths, options.max_width)

    def _frame(self) -> RichTable:
        view = RichTable(
            title=escape(printable(self.table.title)), title_justify="left", header_style="bold"
        )
        for i, column in enumerate(self.table.columns):
            justify: Literal["right", "left"] = "right" if self.table.is_numeric(i) else "left"
            view.add_column(escape(column.title), justify=justify)
        for row in self.cells:
            view.add_row(*map(escape, row))
        return view

    def _lines(self, widths: list[int], width: int) -> Iterator[RenderableType]:
        named = widths[0] > width * _NAME_SHARE
        kept = self._kept(widths, width, named)
        below = [i for i in range(1, len(widths)) if i not in kept]
        titles = {i: self.table.columns[i].title.split() for i in kept}
        height = max(map(len, titles.values()), default=0)
        for level in range(height):
            heading = {i: ([""] * (height - len(t)) + t)[level] for i, t in titles.items()}
            yield Text(self._line(heading, kept, widths), style="bold")
        for row in self.cells:
            if named and row[0]:
                yield Text(row[0], style="bold")
            if kept:
                yield Text(self._line(dict(enumerate(row)), kept, widths))
            yield from self._under(row, below, width)

    def _kept(self, widths: list[int], width: int, named: bool) -> list[int]:
        """The columns that share a line."""
        kept = list(range(1 if named else 0, len(widths)))
        while sum(widths[i] + _GAP for i in kept) > width:
            leaving = [i for i in kept if i > 0]
            if not leaving:
                break
            long = [i for i in leaving if widths[i] > _LONG and not self.table.is_numeric(i)]
            kept.remove(max(long, key=widths.__getitem__) if long else leaving[-1])
        return kept

    def _line(self, texts: dict[int, str], kept: Sequence[int], widths: Sequence[int]) -> str:
        cells = []
        for i in kept:
            space = " " * (widths[i] - cell_len(texts[i]))
            cells.append(space + texts[i] if self.table.is_numeric(i) else texts[i] + space)
        return (" " * _GAP).join(cells).rstrip()

    def _under(self, row: list[str], below: list[int], width: int) -> Iterator[RenderableType]:
        """The other columns, as many as fit in each line."""
        line = Text()
        indent = 2 * _GAP
        for i in below:
            if row[i] in ("", "-"):
                continue
            part = Text.assemble((self.table.columns[i].title, "dim"), " ", row[i])
            if line and line.cell_len + indent + part.cell_len > width - indent:
                yield Padding(line, (0, 0, 0, indent), expand=False)
                line = Text()
            line = Text.assemble(line, " " * indent, part) if line else part
        if line:
            yield Padding(line, (0, 0, 0, indent), expand=False)


def _heading_width(title: str) -> int:
    return max(map(cell_len, title.split()), default=0)
