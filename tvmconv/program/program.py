"""The static execution plan of a network: kernel calls on one planned arena.

Memory report, profile, manifest and C code are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy.typing as npt

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo

# alignment of constants and activations in bytes; every offset is a multiple of it
ALIGNMENT = 64
# Operand's text: place, index, offset and end
_OPERAND = re.compile(r"([a-z]+)(\d*)\[(\d+):(\d+)\]")


class Place(Enum):
    """The kind of memory that holds an operand."""

    INPUT = "input"  # the caller's
    OUTPUT = "output"  # the caller's
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True)
class Operand:
    """One argument of a kernel.

    ``offset`` counts bytes from the start of the constants, of the arena, or of the caller's
    tensor. ``index`` is the number of the input or output, and 0 in other places.
    """

    place: Place
    offset: int
    bytes: int
    index: int = 0

    def __str__(self) -> str:
        """``arena[64:128]``, ``input0[0:16]``: bytes from and to."""
        several = self.place in (Place.INPUT, Place.OUTPUT)
        index = str(self.index) if several else ""
        return f"{self.place.value}{index}[{self.offset}:{self.offset + self.bytes}]"

    @classmethod
    def parse(cls, text: str) -> Operand:
        """Inverse of ``str``.

        Raises ``ValueError`` if the text is not an operand.
        """
        match = _OPERAND.fullmatch(text)
        if not match or int(match[4]) < int(match[3]):
            raise ValueError(f"{text[:80]!r} is not an operand such as arena[64:128]")
        start, end = int(match[3]), int(match[4])
        return cls(Place(match[1]), start, end - start, int(match[2] or 0))


@dataclass(frozen=True)
class Call:
    """One call: ``record.kernel`` is the symbol, ``record`` what explain and profile print.

    Operands are in the order of the function's parameters, results last. A symbol of ``""`` copies
    the first operand to the second.
    """

    record: KernelCall
    operands: tuple[Operand, ...]
    algorithm: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        operands = [str(operand) for operand in self.operands]
        return {**self.record.to_json(), "algorithm": self.algorithm, "operands": operands}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Call:
        """Inverse of :meth:`to_json`."""
        record = dict(data)
        operands = tuple(Operand.parse(text) for text in record.pop("operands"))
        algorithm = record.pop("algorithm")
        return cls(KernelCall.from_json(record), operands, algorithm)


@dataclass(frozen=True)
class Constant:
    """A piece of the constants: its data, C-contiguous, and where it starts."""

    offset: int
    data: npt.NDArray[Any] = field(compare=False)


@dataclass(frozen=True)
class Program:
    """A compiled network but for the machine code of its kernels.

    Tensors have plain layouts, and ``calls`` are in the order of execution. ``constants`` have
    offsets without overlap; each array is held once, however often it is used. ``constant_bytes``
    reach from the start of the first to the end of the last. ``arena_bytes`` are activation memory
    of one call. ``arena_bound`` is the largest sum of buffers that are alive at the same time: no
    plan is smaller. ``workspace_bytes`` is the maximum scratch memory of one thread in any kernel.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    calls: tuple[Call, ...]
    constants: Sequence[Constant]
    constant_bytes: int
    arena_bytes: int
    arena_bound: int
    workspace_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest: all but the data of the constants."""
        return {
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
            "calls": [call.to_json() for call in self.calls],
            "constant_bytes": self.constant_bytes,
            "arena_bytes": self.arena_bytes,
            "arena_bound": self.arena_bound,
            "workspace_bytes": self.workspace_bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Program:
        """Inverse of :meth:`to_json`; without constants, whose data is not there."""
        return cls(
            **{
                **data,
                "inputs": tuple(map(TensorInfo.from_json, data["inputs"])),
                "outputs": tuple(map(TensorInfo.from_json, data["outputs"])),
                "calls": tuple(map(Call.from_json, data["calls"])),
                "constants": (),
            }
        )
