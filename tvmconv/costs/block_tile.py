"""How a tile of a matrix product is dealt to the warps and threads of a block."""

from __future__ import annotations

from dataclasses import dataclass

# lanes of a warp over rows and columns of its tile, and the side of a thread's pieces: a quarter of
# a warp reads one piece of the rows, which is broadcast, and 32 neighbouring columns, all banks
LANES_M, LANES_P, PIECE = 4, 8, 4
_COLUMN_PIECES = 2


@dataclass(frozen=True)
class BlockTile:
    """``m`` rows by ``p`` columns of the product for one block of threads."""

    m: int
    p: int

    @property
    def row_pieces(self) -> int:
        """Pieces of a thread over the rows; small tiles would leave a block with one warp."""
        return 1 if self.m * self.p <= 32 * 64 else 2

    @property
    def splits_m(self) -> tuple[int, int, int, int]:
        """Warps, pieces, lanes and rows of a piece."""
        return (self.m // (self.row_pieces * LANES_M * PIECE), self.row_pieces, LANES_M, PIECE)

    @property
    def splits_p(self) -> tuple[int, int, int, int]:
        """Warps, pieces, lanes and columns of a piece."""
        return (self.p // (_COLUMN_PIECES * LANES_P * PIECE), _COLUMN_PIECES, LANES_P, PIECE)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.splits_m[0] * self.splits_p[0] * LANES_M * LANES_P

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.thread_rows * self.thread_columns

    @property
    def thread_rows(self) -> int:
        """Rows of a thread."""
        return self.row_pieces * PIECE

    @property
    def thread_columns(self) -> int:
        """Columns of a thread."""
        return _COLUMN_PIECES * PIECE
