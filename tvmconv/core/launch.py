"""One launch of a GPU's kernel; a call of a function on a GPU consists of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """A kernel with its blocks and threads, and its resources of a multiprocessor.

    Parameters
    ----------
    kernel
        The symbol in the machine code.
    grid, block
        Blocks, and threads of a block, along x, y and z.
    arguments
        Indices of the function's parameters that the kernel takes, in the kernel's order.
    dynamic_shared_bytes
        Shared memory that the launch requests in addition to the kernel's static one.
    registers
        Registers of one thread. This field and the following ones are 0 before compilation.
    shared_bytes
        The kernel's static shared memory for one block.
    spill_bytes
        Bytes of registers that one thread stores in memory and reads back.
    multiply_add_share
        FMAs over all instructions of the main loop; 0 if unknown.
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
