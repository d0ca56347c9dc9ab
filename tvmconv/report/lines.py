"""A table with one line for each row, on a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from tvmconv.core.printed import printable

if TYPE_CHECKING:
    from tvmconv.report.table import Table

_GAP = 2
# names and sentences keep this much, if columns can leave instead
_NAME, _SENTENCE = 18, 22
_SHORTEST = 8
_CUT = ".."


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

    Names in the first column are cut in the middle. Columns with a number in ``leaves`` are cut at
    the end or left out, the largest number first.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.cells = table.cells()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The heading and the rows."""
        columns = self.table.columns
        widths = self._widths(options.max_width)
        if self.table.title:
            yield Text(printable(self.table.title), style="italic")
        heading = [column.title for column in columns]
        yield Text(self._line(heading, widths), style="bold", no_wrap=True)
        for row in self.cells:
            yield Text(self._line(row, widths), no_wrap=True)

    def _widths(self, limit: int) -> dict[int, int]:
        """The width of each column that is shown."""
        columns = self.table.columns
        widths = {
            i: max([cell_len(column.title), *(cell_len(row[i]) for row in self.cells)])
            for i, column in enumerate(columns)
        }

        def shrink(i: int, least: int) -> None:
            excess = sum(widths.values()) + _GAP * (len(widths) - 1) - limit
            widths[i] = min(widths[i], max(widths[i] - excess, least))

        def is_wide() -> bool:
            return sum(widths.values()) + _GAP * (len(widths) - 1) > limit

        shrink(0, _NAME)
        leaving = [i for i in range(1, len(columns)) if columns[i].leaves]
        for i in sorted(leaving, key=lambda i: -columns[i].leaves):
            if is_wide() and not self.table.is_numeric(i):
                shrink(i, _SENTENCE)
            if is_wide():
                del widths[i]
        shrink(0, _SHORTEST)
        while is_wide() and len(widths) > 1:
            del widths[max(widths)]
        shrink(0, 1)
        return widths

    def _line(self, texts: list[str], widths: dict[int, int]) -> str:
        cells = []
        for i, width in widths.items():
            text = texts[i]
            if cell_len(text) > width:
                text = cut(text, width) if i == 0 else set_cell_size(text, width - 2) + _CUT
            space = " " * (width - cell_len(text))
            cells.append(space + text if self.table.is_numeric(i) else text + space)
        return (" " * _GAP).join(cells).rstrip()
