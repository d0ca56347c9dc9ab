"""How a tile of a matrix product is dealt to the warps and threads of a block."""

from __future__ import annotations

from dataclasses import dataclass

# lanes of a warp over rows and columns of its tile: a quarter of a warp reads one piece of the
# rows, which is broadcast, and 32 neighbouring columns, all banks
LANES_M, LANES_P = 4, 8
_WARP = LANES_M * LANES_P
_THREAD_ROWS = _THREAD_COLUMNS = 8
# of tiles whose rows are so many times 3, those of a thread: their warps are two and not three
_THREE_WARPS, _TALL_ROWS = 96, 12
# values of a tile that one warp has with 8x8 sums a thread
_OF_WARP = _WARP * _THREAD_ROWS * _THREAD_COLUMNS


@dataclass(frozen=True)
class BlockTile:
    """``m`` rows by ``p`` columns of the product for one block of threads.

    Parameters
    ----------
    m, p
        Rows and columns.
    vector
        Neighbouring values that a thread takes of either at once: the side of the pieces that its
        sums consist of. Pieces lie apart, so that a warp reads shared memory without conflicts of
        banks.
    micro
        Whether a thread has many sums. With one each, a warp has 32 neighbours of a row.
    size
        Values of a slice of the reduction.
    """

    m: int
    p: int
    vector: int = 4
    micro: bool = True
    size: int = 2

    @property
    def share(self) -> int:
        """Warps that share their sums, each of which adds its part of a slice.

        Blocks of one warp would leave a multiprocessor with too few: of the smallest tile two warps
        have the same sums, half of the values each, where a slice has two halves.
        """
        whole = self.micro and self.side > 1 and self.size % 2 == 0
        return 2 if whole and self.m * self.p <= _OF_WARP else 1

    @property
    def fours(self) -> bool:
        """Whether values of a slice lie by fours for those who gather them."""
        return self.share > 1 and self.size % (4 * self.share) == 0

    @property
    def row_pieces(self) -> int:
        """Pieces of a thread over the rows."""
        return self.thread_rows // self.side

    @property
    def splits_m(self) -> tuple[int, int, int, int]:
        """Warps, pieces, lanes and rows of a piece."""
        lanes = LANES_M if self.micro else 1
        return (self.m // (self.thread_rows * lanes), self.row_pieces, lanes, self.side)

    @property
    def splits_p(self) -> tuple[int, int, int, int]:
        """Warps, pieces, lanes and columns of a piece."""
        lanes, pieces = LANES_P if self.micro else _WARP, self.thread_columns // self.side
        return (self.p // (self.thread_columns * lanes), pieces, lanes, self.side)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.share * self.splits_m[0] * self.splits_p[0] * _WARP

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.thread_rows * self.thread_columns

    @property
    def thread_rows(self) -> int:
        """Rows of a thread; without shared sums small tiles would leave a block with one warp."""
        if not self.micro:
            return 1
        if self.m % _THREE_WARPS == 0:
            return _TALL_ROWS
        few = self.m * self.p <= _OF_WARP and self.share == 1
        return _THREAD_ROWS // 2 if few else _THREAD_ROWS

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return _THREAD_COLUMNS if self.micro else 1

    @property
    def side(self) -> int:
        """Rows and columns of a piece."""
        return self.vector if self.micro else 1
