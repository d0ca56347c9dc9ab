"""How a tile of a GEMM on tensor cores is distributed over the warps of a block."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.cuda import fragments


@dataclass(frozen=True)
class MmaTile:
    """``m`` rows by ``p`` columns of the product for one block, each warp ``wm`` by ``wp``."""

    m: int
    p: int
    wm: int
    wp: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.m // self.wm * (self.p // self.wp)

    @property
    def splits_m(self) -> tuple[int, int, int]:
        """Warps, fragments of a warp and rows of a fragment."""
        return (self.m // self.wm, self.wm // fragments.ROWS, fragments.ROWS)

    @property
    def splits_p(self) -> tuple[int, int, int]:
        """Warps, fragments of a warp and columns of a fragment."""
        return (self.p // self.wp, self.wp // fragments.COLUMNS, fragments.COLUMNS)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return fragments.LANES * self.warps

    @property
    def products(self) -> int:
        """Instructions of a warp for one step of 8 dwords."""
        return self.wm // fragments.ROWS * (self.wp // fragments.COLUMNS)

    @property
    def sums(self) -> int:
        """Accumulators of a thread, which are registers."""
        return self.wm * self.wp // fragments.LANES
