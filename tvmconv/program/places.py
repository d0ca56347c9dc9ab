"""Where the buffers of a straight line of calls lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.decision import KernelCall
from tvmconv.program.arena import Life, Plan, plan
from tvmconv.program.program import ALIGNMENT, Call, Constant, Operand, Place


@dataclass(eq=False)
class Buffer:
    """A piece of memory, which views and aliases share; its place is found last.

    Parameters
    ----------
    bytes
        Its size.
    place, index, offset
        As of :class:`~tvmconv.program.program.Operand`.
    data
        Of a constant, by DLPack.
    """

    bytes: int
    place: Place = Place.ARENA
    index: int = 0
    offset: int = 0
    data: Any = None

    def as_operand(self) -> Operand:
        """The finished form."""
        return Operand(self.place, self.offset, self.bytes, self.index)


@dataclass(eq=False)
class Step:
    """A call; ``function`` is the variable of the called one, or None for a copy."""

    function: Any
    record: KernelCall
    operands: Sequence[Buffer]
    results: Sequence[Buffer]

    def as_call(self, symbol: str, algorithm: str) -> Call:
        """The finished form."""
        operands = tuple(buffer.as_operand() for buffer in (*self.operands, *self.results))
        return Call(replace(self.record, kernel=symbol), operands, algorithm)


def place_outputs(results: Iterable[Buffer]) -> list[Step]:
    """Have results computed where the caller wants them.

    Returns
    -------
    list of Step
        Copies of results that already have another place: inputs, constants, other results.
    """
    copies = []
    for index, buffer in enumerate(results):
        if buffer.place is Place.ARENA:
            buffer.place, buffer.index = Place.OUTPUT, index
        elif buffer.bytes:
            record = KernelCall("", "", "copy", bytes=2 * buffer.bytes)
            target = Buffer(buffer.bytes, Place.OUTPUT, index)
            copies.append(Step(None, record, [buffer], [target]))
    return copies


def place_in_arena(steps: Sequence[Step]) -> Plan:
    """Give every buffer of the arena its offset."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for time, step in enumerate(steps):
        for buffer in (*step.operands, *step.results):
            if buffer.place is Place.ARENA:
                first.setdefault(buffer, time)
                last[buffer] = time
    planned = plan([Life(b.bytes, first[b], last[b]) for b in first], ALIGNMENT)
    for buffer, offset in zip(first, planned.offsets, strict=True):
        buffer.offset = offset
    return planned


def place_constants(steps: Iterable[Step]) -> tuple[tuple[Constant, ...], int]:
    """Lay constants out in the order of their first use; also the bytes in all."""
    used = [b for step in steps for b in step.operands if b.place is Place.CONSTANT]
    constants = []
    end = 0
    for buffer in dict.fromkeys(used):
        buffer.offset = -(-end // ALIGNMENT) * ALIGNMENT
        end = buffer.offset + buffer.bytes
        constants.append(Constant(buffer.offset, _array(buffer.data)))
    return tuple(constants), end


def _array(data: Any) -> npt.NDArray[Any]:
    """An array of a TVM tensor, in the same memory where numpy knows the type."""
    try:
        return np.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError):
        return np.asarray(data.numpy(), order="C")
