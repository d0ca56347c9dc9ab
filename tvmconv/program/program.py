"""The static execution plan of a network: kernel calls on one planned arena.

Memory report, profile, manifest and C code are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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

    Operands are in the order of the function's parameters, results last. A symbol of ``""`` runs
    ``nested`` programs, or copies the first operand to the second.
    """

    record: KernelCall
    operands: tuple[Operand, ...]
    algorithm: str = ""
    nested: Branch | Loop | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        nested = {} if self.nested is None else {self.nested.kind: self.nested.to_json()}
        operands = [str(operand) for operand in self.operands]
        record = self.record.to_json()
        return {**record, "algorithm": self.algorithm, "operands": operands, **nested}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Call:
        """Inverse of :meth:`to_json`."""
        record = dict(data)
        operands = tuple(Operand.parse(text) for text in record.pop("operands"))
        algorithm = record.pop("algorithm")
        nested: Branch | Loop | None = None
        if Branch.kind in record:
            nested = Branch.from_json(record.pop(Branch.kind))
        elif Loop.kind in record:
            nested = Loop.from_json(record.pop(Loop.kind))
        return cls(KernelCall.from_json(record), operands, algorithm, nested)


@dataclass(frozen=True)
class Branch:
    """Two nested programs, of which a call runs one.

    The call's operands are the condition, the inputs of both programs, their outputs, and memory
    for the larger one of their arenas. The first program runs if the condition is not zero.
    """

    kind = "branch"
    then: Program
    other: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        """Both programs."""
        return self.then, self.other

    def mapped(self, change: Callable[[Program], Program]) -> Branch:
        """The same with changed programs."""
        return Branch(change(self.then), change(self.other))

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {"then": self.then.to_json(), "else": self.other.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Branch:
        """Inverse of :meth:`to_json`."""
        return cls(Program.from_json(data["then"]), Program.from_json(data["else"]))


@dataclass(frozen=True)
class LoopForm:
    """How a loop passes tensors to its body.

    The body's inputs are the trip's number if ``counts``, the states, one slice of each scanned
    tensor, and tensors that stay the same. The body's outputs are a condition if ``ends``, the
    states, and one slice of each stacked result. A tensor with True in ``backward`` or
    ``stacked_backward`` is read or written from its last slice on.

    A loop runs ``trips`` times. If it ``ends`` early, it stops after the first trip whose condition
    is zero. If it is ``guarded``, it does not start if its own condition is zero.
    """

    trips: int
    states: int
    backward: tuple[bool, ...] = ()
    stacked_backward: tuple[bool, ...] = ()
    counts: bool = False
    ends: bool = False
    guarded: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LoopForm:
        """Inverse of ``asdict``, also for lists in place of tuples."""
        lists = {name: tuple(data[name]) for name in ("backward", "stacked_backward")}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class Loop:
    """A nested program that a call runs several times.

    The call's first operand is the condition if the loop is guarded. Then follow the body's inputs
    but for the trip's number, and the results. Whole tensors are in place of slices. The last ones
    are memory: a second tensor for each state, the condition's byte if the loop ends early, and the
    body's arena.
    """

    kind = "loop"
    form: LoopForm
    body: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        """The body."""
        return (self.body,)

    def mapped(self, change: Callable[[Program], Program]) -> Loop:
        """The same with a changed body."""
        return Loop(self.form, change(self.body))

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {**asdict(self.form), "body": self.body.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Loop:
        """Inverse of :meth:`to_json`."""
        form = {name: value for name, value in data.items() if name != "body"}
        return cls(LoopForm.from_json(form), Program.from_json(data["body"]))


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

    The operands of a nested program are its own inputs, outputs and arena, and the constants of the
    outermost program. ``others`` are programs of the same network for other shapes of its inputs.
    Their operands are the constants of this one, too.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    calls: tuple[Call, ...]
    constants: Sequence[Constant]
    constant_bytes: int
    arena_bytes: int
    arena_bound: int
    workspace_bytes: int = 0
    others: tuple[Program, ...] = ()

    @property
    def programs(self) -> tuple[Program, ...]:
        """This program and the others: one for each shape of the inputs."""
        return (self, *self.others)

    def used_constants(self) -> dict[int, int]:
        """Bytes of the constants that the calls read, by offset."""
        operands = (operand for call in self.all_calls() for operand in call.operands)
        return {each.offset: each.bytes for each in operands if each.place is Place.CONSTANT}

    def all_calls(self) -> Iterator[Call]:
        """All calls, nested ones included, each after the call that runs it."""
        for call in self.calls:
            yield call
            for program in call.nested.programs if call.nested else ():
                yield from program.all_calls()

    def mapped(self, change: Callable[[Call], Call]) -> Program:
        """The same with each call changed, in nested programs as well."""
        calls = []
        for call in self.calls:
            call = change(call)
            if call.nested:
                nested = call.nested.mapped(lambda program: program.mapped(change))
                call = replace(call, nested=nested)
            calls.append(call)
        others = tuple(program.mapped(change) for program in self.others)
        return replace(self, calls=tuple(calls), others=others)

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
            "others": [program.to_json() for program in self.others],
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
                "others": tuple(map(Program.from_json, data["others"])),
            }
        )
