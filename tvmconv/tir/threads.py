"""Threads of a GPU's blocks, as kernels are told of them."""

from __future__ import annotations

from math import prod
from typing import Any

# threads of a block that leave each 128 registers at most: less than a thread's sums, operands and
# tests take where passes give them more variables
LARGE_BLOCK = 256


def block_threads(body: Any) -> int:
    """Threads of a block."""
    import tvm_ffi
    from tvm import tirx

    extents: list[int] = []

    def look(node: Any) -> None:
        if node.attr_key == "thread_extent" and node.node.thread_tag.startswith("threadIdx"):
            extents.append(int(node.value))

    tvm_ffi.structural_walk(body, (tirx.AttrStmt, look))
    return prod(extents)
