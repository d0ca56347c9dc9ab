"""A table as plain lines, on a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.text import Text

from tvmconv.core.printed import printable

if TYPE_CHECKING:
    from tvmconv.report.table import Table

_GAP = 2
_INDENT = 4
# names and sentences keep this much, if columns can leave instead
_NAME, _SENTENCE = 18, 22
_SHORTEST = 8
_CUT = ".."
# a name that needs more of the width has a separate line
_NAME_SHARE = 0.4
# longer texts leave the line first
_LONG = 16


def cut(text: str, width: int) -> str:
    """A text of at most ``width`` cells, without its middle if it is too long."""
    if cell_len(text) <= width:
        return text
    kept = max(width - len(_CUT), 1)
    tail = kept // 2
    end = set_cell_size(text[::-1], tail)[::-1] if tail else ""
    return set_cell_size(text, kept - tail) + _CUT + end


class Lines:
    """A table without a frame that is at most as wide as the console.

    If each row is one line, names in the first column are cut in the middle. Columns with a number
    in ``leaves`` are cut at the end or left out, the largest number first.

    In other tables each text stays whole, for search and copy. Long texts, the longest first, and
    then the last columns follow their row as ``title value``.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.cells = table.cells()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The heading and the rows."""
        columns, limit = self.table.columns, options.max_width
        widths = {
            i: max([cell_len(column.title), *(cell_len(row[i]) for row in self.cells)])
            for i, column in enumerate(columns)
        }
        named = not self.table.one_line and widths[0] > limit * _NAME_SHARE
        if self.table.one_line:
            self._shrink(widths, limit)
        else:
            self._move_below(widths, limit, named)
        if self.table.title:
            yield Text(printable(self.table.title), style="italic")
        heading = [column.title for column in columns]
        yield Text(self._line(heading, widths), style="bold", no_wrap=True)
        for row in self.cells:
            if named and row[0]:
                yield Text(row[0], style="bold")
            if widths:
                yield Text(self._line(row, widths), no_wrap=self.table.one_line)
            if not self.table.one_line:
                below = [i for i in range(1, len(columns)) if i not in widths]
                yield from self._under(row, below, limit)

    def _shrink(self, widths: dict[int, int], limit: int) -> None:
        """Cut columns or leave them out, until a row is one line."""
        columns = self.table.columns

        def shrink(i: int, least: int) -> None:
            excess = _total(widths) - limit
            widths[i] = min(widths[i], max(widths[i] - excess, least))

        shrink(0, _NAME)
        leaving = [i for i in range(1, len(columns)) if columns[i].leaves]
        for i in sorted(leaving, key=lambda i: -columns[i].leaves):
            if _total(widths) > limit and not self.table.is_numeric(i):
                shrink(i, _SENTENCE)
            if _total(widths) > limit:
                del widths[i]
        shrink(0, _SHORTEST)
        while _total(widths) > limit and len(widths) > 1:
            del widths[max(widths)]
        shrink(0, 1)

    def _move_below(self, widths: dict[int, int], limit: int, named: bool) -> None:
        """Leave out the columns that do not share a line with the others."""
        if named:
            del widths[0]
        while _total(widths) > limit and (leaving := [i for i in widths if i > 0]):
            long = [i for i in leaving if widths[i] > _LONG and not self.table.is_numeric(i)]
            del widths[max(long, key=widths.__getitem__) if long else leaving[-1]]

    def _line(self, texts: list[str], widths: dict[int, int]) -> str:
        cells = []
        for i, width in widths.items():
            text = texts[i]
            if cell_len(text) > width:
                text = cut(text, width) if i == 0 else set_cell_size(text, width - 2) + _CUT
            space = " " * (width - cell_len(text))
            cells.append(space + text if self.table.is_numeric(i) else text + space)
        return (" " * _GAP).join(cells).rstrip()

    def _under(self, row: list[str], below: list[int], limit: int) -> Iterator[RenderableType]:
        """The other columns, as many as fit in each line."""
        line = Text()
        for i in below:
            if row[i] in ("", "-"):
                continue
            part = Text.assemble((self.table.columns[i].title, "dim"), " ", row[i])
            if line and line.cell_len + part.cell_len > limit - 2 * _INDENT:
                yield Padding(line, (0, 0, 0, _INDENT), expand=False)
                line = Text()
            line = Text.assemble(line, " " * _INDENT, part) if line else part
        if line:
            yield Padding(line, (0, 0, 0, _INDENT), expand=False)


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)
