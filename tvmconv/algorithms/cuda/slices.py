"""How the reduction of a convolution is cut into slices for a block of threads."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tvm_api.types import Index

# contents of a slice; see Slices
CHANNELS, ROW, COLUMN, WINDOW = "channels", "row", "column", "window"
KINDS = (CHANNELS, ROW, WINDOW)
# kinds of windows that are stored column by column
COLUMN_KINDS = (CHANNELS, COLUMN, WINDOW)
# threads of a block with at most 128 registers each: too few if passes add variables
LARGE_BLOCK = 256
# A table (tvmconv/tir/cuda/tap_tables.py) has the tap of a slice in padded layers. The limits are
# the taps, as a thread keeps a bit for each, and the zeros that a slice reads outside of the image.
MOST_FORMS, MOST_ZEROS = 31, 1 << 19
# Slices are unrolled in pairs (tvmconv/tir/cuda/unroll_slice_pairs.py) up to so many FMAs of a
# thread and slice, and from so many iterations on. Longer loops have little overhead.
PAIRED_PRODUCTS, PAIRED_ITERATIONS = 512, 4


@dataclass(frozen=True)
class Slices:
    """The K axis of the matrix product, ``count`` slices of ``size`` values.

    A slice of ``channels`` holds channels of one tap. A slice of ``row`` or ``column`` holds all
    channels of one row or column of the window, which fills slices of layers with few channels.
    Slices of ``window`` hold the whole window, channels outermost and columns innermost. The last
    slice of each tap, row, column or window is padded with zeros. The slices are of one group of
    the workload. ``kind`` is one of :data:`KINDS`, or of :data:`COLUMN_KINDS`. ``by_columns`` is
    whether rows are innermost in a slice of ``window``, as im2win arranges windows.
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
        """Runs of whole slices: taps, rows or columns of the window, or one."""
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
        """Whether the last slice of a run has zeros after its values."""
        return self.run_values % self.size > 0

    @property
    def by_table(self) -> bool:
        """Whether a table has the place of a slice in a padded image.

        All values of the slice share it: slices are of one tap and whole. Taps are few, and planes
        are not too large.
        """
        w = self.workload
        taps = w.kernel_d * w.kernel_h * w.kernel_w
        whole = w.has_padding and self.kind == CHANNELS and not self.is_ragged
        span = (self.size - 1) * w.in_height * w.in_width
        return whole and taps <= MOST_FORMS and span < MOST_ZEROS

    def place(self, part: Index, value: Index) -> tuple[Index, Index, Index]:
        """Channel, row and column of the window of a slice's value.

        Rows are numbered over all planes of a volume's window, as in packed weights.
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
