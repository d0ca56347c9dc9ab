"""The record of one program of a model, as a part of its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, overload

from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.errors import ArtifactError, TvmconvError
from tvmconv.core.plain_data import check_types
from tvmconv.core.tensor import TensorInfo

# errors of malformed data
MALFORMED = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, TvmconvError)


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that one model holds, and one call needs.

    Parameters
    ----------
    arena_bytes
        Activations of one call, which the model holds once for each call that runs at a time.
    output_bytes
        Outputs, which the caller holds.
    constant_bytes
        Packed weights and other constants, held once for all calls.
    workspace_bytes
        Scratch memory of one call, for all of its threads; as long as its activations.
    padding_bytes
        The part of activations and constants that is zeros added to fill channel blocks.
    own_constant_bytes
        The part of the constants that only this program of several reads. A model with one shape
        has 0.
    """

    arena_bytes: int = 0
    output_bytes: int = 0
    constant_bytes: int = 0
    workspace_bytes: int = 0
    padding_bytes: int = 0
    own_constant_bytes: int = 0

    def joined(self, other: MemoryReport) -> MemoryReport:
        """The bytes of a model with two programs, of which a call runs one."""
        larger = {name: max(value, getattr(other, name)) for name, value in vars(self).items()}
        return MemoryReport(**{**larger, "own_constant_bytes": 0})


class StoredDecisions(Sequence[Decision]):
    """The decisions of a saved program, which are decoded on first use: calls need none.

    Raises ``ArtifactError`` on use if ``data``, as in the file, are malformed.
    """

    def __init__(self, data: object) -> None:
        if not isinstance(data, list):
            raise TypeError(f"decisions cannot be {str(data)[:80]!r}")
        self._data: list[Any] = data

    @cached_property
    def _decoded(self) -> tuple[Decision, ...]:
        try:
            found = tuple(map(Decision.from_json, self._data))
            check_types(found, tuple[Decision, ...], "decisions")
        except MALFORMED as error:
            raise ArtifactError(
                "the decisions of the layers of a saved model are damaged "
                f"({type(error).__name__}: {error}). Build the model again."
            ) from error
        return found

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, index: int) -> Decision: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Decision, ...]: ...

    def __getitem__(self, index: int | slice) -> Decision | tuple[Decision, ...]:
        return self._decoded[index]

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decoded)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, StoredDecisions) else other)

    def __hash__(self) -> int:
        return hash(self._decoded)


@dataclass(frozen=True)
class ProgramRecord:
    """The part of a manifest that belongs to the program for one shape of the inputs."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    decisions: tuple[Decision, ...] | StoredDecisions = ()
    calls: tuple[KernelCall, ...] = ()
    unscheduled: tuple[Unscheduled, ...] = ()
    memory: MemoryReport = field(default_factory=MemoryReport)
    reorders: int = 0

    def to_json(self) -> dict[str, Any]:
        """The part of the file."""
        return {
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
            "memory": asdict(self.memory),
            "reorders": self.reorders,
            "decisions": [decision.to_json() for decision in self.decisions],
            "calls": [call.to_json() for call in self.calls],
            "unscheduled": [convolution.to_json() for convolution in self.unscheduled],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProgramRecord:
        """Inverse of :meth:`to_json`; ignores other fields."""
        return cls(
            inputs=tuple(TensorInfo.from_json(t) for t in data["inputs"]),
            outputs=tuple(TensorInfo.from_json(t) for t in data["outputs"]),
            decisions=StoredDecisions(data["decisions"]),
            calls=tuple(KernelCall.from_json(c) for c in data["calls"]),
            unscheduled=tuple(Unscheduled.from_json(c) for c in data.get("unscheduled", ())),
            memory=MemoryReport(**data["memory"]),
            reorders=data["reorders"],
        )
