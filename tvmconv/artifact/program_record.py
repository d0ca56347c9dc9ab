"""The record of one program of a model, as a part of its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tvmconv.core.decision import Decision, KernelCall, Unscheduled
from tvmconv.core.tensor import TensorInfo


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


@dataclass(frozen=True)
class ProgramRecord:
    """The part of a manifest that belongs to the program for one shape of the inputs."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    decisions: tuple[Decision, ...] = ()
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
            decisions=tuple(Decision.from_json(d) for d in data["decisions"]),
            calls=tuple(KernelCall.from_json(c) for c in data["calls"]),
            unscheduled=tuple(Unscheduled.from_json(c) for c in data.get("unscheduled", ())),
            memory=MemoryReport(**data["memory"]),
            reorders=data["reorders"],
        )
