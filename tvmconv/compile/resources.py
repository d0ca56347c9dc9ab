"""The resources of kernels on a GPU, from the log of NVIDIA's assembler."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tvmconv.core.launch import Launch

_KERNEL = re.compile(
    r"Function properties for (?P<name>\w+)\n\s*(?P<stack>\d+) bytes stack frame, "
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)"
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel on a multiprocessor.

    ``registers`` are of one thread, ``shared_bytes`` of a block. ``spill_bytes`` are bytes of
    registers that one thread stores and loads. ``multiply_add_share`` is the share of FMA in the
    main loop's instructions on the first architecture. It is 0 without such a loop, or without
    nvdisasm.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    multiply_add_share: float = 0.0

    def of(self, launch: Launch) -> Launch:
        """A launch of the kernel with these resources."""
        return replace(
            launch,
            registers=self.registers,
            shared_bytes=self.shared_bytes,
            spill_bytes=self.spill_bytes,
            multiply_add_share=self.multiply_add_share,
        )


def read_resources(said: str) -> dict[str, Resources]:
    """Resources by kernel in the log of ``ptxas -v``: the maximum over architectures."""
    found: dict[str, Resources] = {}
    for kernel in _KERNEL.finditer(said):
        shared = _SHARED.search(kernel["rest"])
        spilled = int(kernel["stores"]) + int(kernel["loads"])
        other = found.get(kernel["name"], Resources(0, 0, 0))
        found[kernel["name"]] = Resources(
            max(int(kernel["registers"]), other.registers),
            max(int(shared[1]) if shared else 0, other.shared_bytes),
            max(spilled, other.spill_bytes),
        )
    return found
