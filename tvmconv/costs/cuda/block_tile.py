"""How a tile of a GEMM is distributed over the warps and threads of a block."""

from __future__ import annotations

from dataclasses import dataclass

# Lanes of a warp over rows and columns of its tile. A quarter of a warp reads one piece of rows,
# which is broadcast, and 32 neighboring columns, which use all banks.
LANES_M, LANES_P = 4, 8
_WARP = LANES_M * LANES_P
_THREAD_ROWS = _THREAD_COLUMNS = 8
# rows of a tile that would need three warps, and rows of a thread with which they need two
_THREE_WARPS, _TALL_ROWS = 96, 12
# values of the tile of one warp with 8x8 accumulators a thread
_OF_WARP = _WARP * _THREAD_ROWS * _THREAD_COLUMNS


@dataclass(frozen=True)
class BlockTile:
    """``m`` rows by ``p`` columns of the product for one block of threads.

    A thread reads ``vector`` neighboring values at once: the side of the pieces of its
    accumulators. Pieces are interleaved, so that a warp reads shared memory without bank conflicts.
    With ``micro``, a thread has many accumulators. Otherwise a warp has 32 neighbors of a row.
    ``size`` counts values of a slice of the reduction.
    """

    m: int
    p: int
    vector: int = 4
    micro: bool = True
    size: int = 2

    @property
    def share(self) -> int:
        """Warps that share their accumulators, each of which adds its part of a slice.

        Blocks of one warp would be too few for a multiprocessor. In the smallest tile two warps
        have the same accumulators, and each adds half of a slice, if slices are even.
        """
        whole = self.micro and self.side > 1 and self.size % 2 == 0
        return 2 if whole and self.m * self.p <= _OF_WARP else 1

    @property
    def fours(self) -> bool:
        """Whether the copy stores values of a slice in groups of four."""
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
        """Accumulators of a thread."""
        return self.thread_rows * self.thread_columns

    @property
    def thread_rows(self) -> int:
        """Rows of a thread; small tiles have fewer, so that a block has more than one warp."""
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
