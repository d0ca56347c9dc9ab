"""One launch of a GPU's kernel: what a call of a function on a GPU consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """A kernel with the blocks and threads that run it, and what of a multiprocessor it takes.

    Parameters
    ----------
    kernel
        Its symbol in the machine code.
    grid, block
        Blocks, and threads of one, along x, y and z.
    arguments
        Which parameters of the function that the launch is part of it takes, in its own order.
    dynamic_shared_bytes
        Shared memory that the launch asks for, beside what the kernel has by itself.
    registers
        Of one thread; 0 until the kernel is compiled, as what follows.
    shared_bytes
        Shared memory of a block that the kernel has by itself.
    spill_bytes
        Bytes of registers that one thread stores in memory and reads back.
    multiply_add_share
        Multiply-adds over all instructions of the main loop; 0 where it is not known.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int, ...]
    dynamic_shared_bytes: int = 0
    registers: int = 0
    shared_bytes: int = 0
    spill_bytes: int = 0
    multiply_add_share: float = 0.0

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Launch:
        """Inverse of :meth:`to_json`."""
        lists = {name: tuple(data[name]) for name in ("grid", "block", "arguments")}
        return cls(**{**data, **lists})
