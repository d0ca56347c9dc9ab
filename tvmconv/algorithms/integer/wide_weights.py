"""Widens 8-bit weights to 16 bits once for each group of output blocks.

If the instruction multiplies 16-bit integers (``vpmaddwd``), each load of weights would widen them
again for every tile of positions. A 16-bit copy of the current output blocks moves this out of the
reduction loop. The packed weights keep one byte each.
"""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# name of the block
WIDE = "wide_weights"


def widens_weights(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether a step loads weights of fewer bits than it multiplies."""
    if machine.code.by_lane:
        return False
    return itemsize(workload.types.weight) < itemsize(multiply_of(workload, machine).element)


def wide_weights(given: Operands) -> Tensor:
    """Block ``wide_weights``: the packed weights in the type that the instruction multiplies."""
    from tvmconv.tvm_api import te

    element = multiply_of(given.workload, given.machine).element

    def value(*place: Expr) -> Expr:
        return given.weight[place].astype(element)

    return te.compute(tuple(given.weight.shape), value, name=WIDE)


def wide_bytes(packed: tuple[int, ...], workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of one thread's copy of packed weights, whose first axis is groups of blocks."""
    return itemsize(multiply_of(workload, machine).element) * prod(packed[1:])
