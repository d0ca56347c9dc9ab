"""How the reduction of a convolution is cut into slices that a block of threads takes at a time."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tvm_api.types import Index

# what a slice holds; see Slices
CHANNELS, ROW, COLUMN, WINDOW = "channels", "row", "column", "window"
KINDS = (CHANNELS, ROW, WINDOW)
# of windows that lie column by column
COLUMN_KINDS = (CHANNELS, COLUMN, WINDOW)
# threads of a block that leave each 128 registers at most: less than a thread's sums, operands and
# tests take where passes give them more variables
LARGE_BLOCK = 256
# of padded layers tap and place of a slice are found in a table (tvmconv/tir/cuda/tap_tables.py):
# taps, of which a thread keeps a bit each, and the zeros that a slice reads outside of the image, 2
# MiB
MOST_FORMS, MOST_ZEROS = 31, 1 << 19
# slices that go two by two (tvmconv/tir/cuda/unroll_slice_pairs.py): a thread's multiply-adds of
# one at most, as of more the loop itself takes little, and two are more code; iterations at least
PAIRED_PRODUCTS, PAIRED_ITERATIONS = 512, 4


@dataclass(frozen=True)
class Slices:
    """The K axis of the matrix product, ``count`` slices of ``size`` values.

    A slice of ``channels`` holds channels of one tap, the last slice of a tap zeros behind them.
    Of few channels little would be left of it: a slice of ``row`` or ``column`` holds all channels
    of one row or column of the window, one of ``window`` all of the window, channels outermost and
    columns innermost; the last one of each zeros behind them.

    Parameters
    ----------
    workload
        The convolution; one group of it.
    kind
        One of :data:`KINDS`, or of :data:`COLUMN_KINDS`.
    size
        Values of a slice.
    by_columns
        Whether rows are innermost in a slice of ``window``, as im2win lays windows out.
    """

    workload: Conv2dWorkload
    kind: str
    size: int
    by_columns: bool = False

    @property
    def channels(self) -> int:
        """Input channels of one group."""
        return self.workload.in_channels // self.workload.groups

    @property
    def runs(self) -> int:
        """How often a whole number of slices is begun: taps, rows of the window, or once."""
        w = self.workload
        rows = w.kernel_d * w.kernel_h
        return {CHANNELS: rows * w.kernel_w, ROW: rows, COLUMN: w.kernel_w, WINDOW: 1}[self.kind]

    @property
    def run_values(self) -> int:
        """Values of a run."""
        return self.workload.taps // self.runs

    @property
    def run_slices(self) -> int:
        """Slices of a run."""
        return -(-self.run_values // self.size)

    @property
    def count(self) -> int:
        """Slices of the whole reduction."""
        return self.runs * self.run_slices

    @property
    def whole_windows(self) -> bool:
        """Whether a slice of ``window`` holds all taps of some channels."""
        w = self.workload
        return self.kind == WINDOW and self.size % (w.kernel_d * w.kernel_h * w.kernel_w) == 0

    @property
    def is_ragged(self) -> bool:
        """Whether the last slice of a run has zeros behind its values."""
        return self.run_values % self.size > 0

    @property
    def by_table(self) -> bool:
        """Whether a slice's place in a padded image is one for all of its values, and in a table.

        Slices of one tap, whole ones, of few taps and planes that are not too large.
        """
        w = self.workload
        taps = w.kernel_d * w.kernel_h * w.kernel_w
        whole = w.has_padding and self.kind == CHANNELS and not self.is_ragged
        span = (self.size - 1) * w.in_height * w.in_width
        return whole and taps <= MOST_FORMS and span < MOST_ZEROS

    def place(self, part: Index, value: Index) -> tuple[Index, Index, Index]:
        """Channel, row and column of the window of a slice's value.

        Rows are those of all planes of a volume's window, as packed weights number them.
        """
        w, k = self.workload, part % self.run_slices * self.size + value
        rows, run = w.kernel_d * w.kernel_h, part // self.run_slices
        if self.kind == CHANNELS:
            return k, run // w.kernel_w, run % w.kernel_w
        if self.kind == ROW:
            return k // w.kernel_w, run, k % w.kernel_w
        if self.kind == COLUMN:
            return k // rows, k % rows, run
        if self.by_columns:
            return k // (rows * w.kernel_w), k % rows, k // rows % w.kernel_w
        return k // (rows * w.kernel_w), k // w.kernel_w % rows, k % w.kernel_w
