"""Places in memory for the buffers of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.program.arena import ArenaPlan, Life, plan
from tvmconv.program.program import ALIGNMENT, Constant, LoopForm, Operand, Place

# first bytes of a constant, which are compared before the rest
_START = 256


@dataclass(eq=False)
class Buffer:
    """A piece of memory, which views and aliases share; ``offset`` is set last.

    ``data`` is the tensor of a constant. ``inside`` is another buffer of the arena that this one is
    a part of, and the offset there. Other fields are as in
    :class:`~tvmconv.program.program.Operand`.
    """

    bytes: int
    place: Place = Place.ARENA
    index: int = 0
    offset: int = 0
    data: Any = None
    inside: tuple[Buffer, int] | None = None

    def root(self) -> tuple[Buffer, int]:
        """The outermost buffer that contains this one, and the offset there."""
        whole, offset = self, 0
        while whole.inside is not None:
            whole, start = whole.inside
            offset += start
        return whole, offset

    def as_operand(self) -> Operand:
        """The finished form."""
        whole, offset = self.root()
        return Operand(self.place, whole.offset + offset, self.bytes, self.index)


@dataclass(eq=False)
class Step:
    """A call; ``function`` is the variable of the called function, or None for a copy.

    ``joins`` is True if the call writes its operands one after another. ``part`` is the offset if
    the call copies the bytes of its operand from there on. ``copies`` is True if the result is a
    copy of the operand, which a later call changes. ``nested`` are programs that the step runs, and
    ``form`` is the form of a loop.
    """

    function: Any
    record: KernelCall
    operands: Sequence[Buffer]
    results: Sequence[Buffer]
    joins: bool = False
    part: int | None = None
    nested: tuple[NestedSteps, ...] = ()
    form: LoopForm | None = None
    copies: bool = False

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Operands and results, as the function takes them."""
        return (*self.operands, *self.results)

    def all_steps(self) -> Iterator[Step]:
        """This step and the steps of nested programs, each after the step that runs it."""
        yield self
        for program in self.nested:
            for step in program.steps:
                yield from step.all_steps()


@dataclass(frozen=True)
class NestedSteps:
    """A nested program before its constants have places."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    steps: Sequence[Step]
    arena: ArenaPlan


def place_outputs(results: Iterable[Buffer]) -> list[Step]:
    """Let results be computed in the caller's tensors.

    Returns copies of results that have another place: inputs, constants, other results.
    """
    copies = []
    for index, buffer in enumerate(results):
        if buffer.place is Place.ARENA:
            buffer.place, buffer.index = Place.OUTPUT, index
        elif buffer.bytes:
            target = Buffer(buffer.bytes, Place.OUTPUT, index)
            copies.append(Step(None, KernelCall("", "", "copy"), [buffer], [target]))
    return copies


def place_in_arena(steps: Sequence[Step]) -> ArenaPlan:
    """Give every buffer of the arena its offset."""
    found = lives(steps)
    planned = plan(list(found.values()), ALIGNMENT)
    for buffer, offset in zip(found, planned.offsets, strict=True):
        buffer.offset = offset
    return planned


def lives(steps: Sequence[Step]) -> dict[Buffer, tuple[Life, ...]]:
    """The lifetime of each buffer of the arena, by parts that are used at different times."""
    used: dict[Buffer, dict[tuple[int, int], tuple[int, int]]] = {}
    for time, step in enumerate(steps):
        for buffer in step.buffers:
            root, start = buffer.root()
            if root.place is Place.ARENA:
                end = -(-(start + buffer.bytes) // ALIGNMENT) * ALIGNMENT
                piece = (start // ALIGNMENT * ALIGNMENT, min(end, root.bytes))
                times = used.setdefault(root, {})
                times[piece] = (times.get(piece, (time,))[0], time)
    return {root: tuple(_parts(root.bytes, times)) for root, times in used.items()}


def _parts(size: int, used: Mapping[tuple[int, int], tuple[int, int]]) -> Iterator[Life]:
    """The parts of a buffer of which pieces are used between two times each."""
    edges = sorted({0, size, *chain.from_iterable(used)})
    everything = (min(first for first, _ in used.values()), max(last for _, last in used.values()))
    found = []
    for start, end in pairwise(edges):
        times = [time for (low, high), time in used.items() if low <= start and end <= high]
        # nothing uses bytes between two parts
        first = min((first for first, _ in times), default=everything[0])
        last = max((last for _, last in times), default=everything[1])
        found.append((first, last, end - start))
    for (first, last), pieces in groupby(found, key=lambda piece: piece[:2]):
        yield Life(sum(length for *_, length in pieces), first, last)


class ConstantPool:
    """Constants of one or several programs, in the order of their first use.

    Equal constants get one place: layers that share weights, and programs for several shapes or
    targets, have packed them separately.
    """

    def __init__(self) -> None:
        self.constants: list[Constant] = []
        self.bytes = 0
        self._alike: dict[tuple[int, bytes], list[tuple[npt.NDArray[Any], int]]] = {}

    def place(self, steps: Iterable[Step]) -> None:
        """Give the constants of a program's steps their offsets."""
        used = [b for step in steps for b in step.operands if b.place is Place.CONSTANT]
        for buffer in dict.fromkeys(used):
            buffer.offset = self._offset(_array(buffer.data), buffer.bytes)

    def _offset(self, array: npt.NDArray[Any], size: int) -> int:
        raw = array.reshape(-1).view(np.uint8)
        known = self._alike.setdefault((raw.size, raw[:_START].tobytes()), [])
        for other, offset in known:
            if np.array_equal(raw, other):
                return offset
        place = -(-self.bytes // ALIGNMENT) * ALIGNMENT
        self.bytes = place + size
        self.constants.append(Constant(place, array))
        known.append((raw, place))
        return place


def _array(data: Any) -> npt.NDArray[Any]:
    """An array of a TVM tensor, in the same memory where numpy knows the type."""
    try:
        return np.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError):
        return np.asarray(data.numpy(), order="C")
