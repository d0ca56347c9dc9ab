"""What a network becomes: kernel calls in a straight line, on one planned arena.

Memory report, profile, manifest and C code all come from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy.typing as npt

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo

# what kernels assume of constants and activations; every offset is a multiple of it
ALIGNMENT = 64


class Place(Enum):
    """Where an operand lies."""

    INPUT = "input"  # the caller's
    OUTPUT = "output"  # the caller's
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True)
class Operand:
    """One argument of a kernel.

    Parameters
    ----------
    place
        Where it lies.
    offset
        Bytes from the start of the constants, of the arena, or of the caller's tensor.
    index
        Which input or output it is; 0 in the other places.
    bytes
        Its size.
    """

    place: Place
    offset: int
    bytes: int
    index: int = 0


@dataclass(frozen=True)
class Call:
    """One call: ``record.kernel`` is the symbol, ``record`` what explain and profile print.

    Operands are in the order of the function's parameters, results last. A symbol of ``""`` copies
    the first operand to the second.
    """

    record: KernelCall
    operands: tuple[Operand, ...]
    algorithm: str = ""


@dataclass(frozen=True)
class Constant:
    """A piece of the constants: its data, C-contiguous, and where it starts."""

    offset: int
    data: npt.NDArray[Any] = field(compare=False)


@dataclass(frozen=True)
class Program:
    """A compiled network but for the machine code of its kernels.

    Parameters
    ----------
    inputs, outputs
        The model's tensors, plain layouts, in order.
    calls
        In the order of execution.
    constants
        By offset, without overlap; each array once, however often it is used.
    constant_bytes
        From the start of the first to the end of the last.
    arena_bytes
        Activation memory of one call.
    arena_bound
        The largest sum of buffers that are alive at a time: no plan takes less.
    workspace_bytes
        The most scratch memory that one thread takes from the pool in any kernel.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    calls: tuple[Call, ...]
    constants: Sequence[Constant]
    constant_bytes: int
    arena_bytes: int
    arena_bound: int
    workspace_bytes: int = 0
