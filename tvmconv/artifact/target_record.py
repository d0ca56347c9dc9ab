"""The record of one target of a model, as a part of its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvmconv.artifact.program_record import ProgramRecord
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_device


@dataclass(frozen=True)
class TargetRecord:
    """The part of a manifest that belongs to one of several targets.

    Parameters
    ----------
    machine
        The CPU that the code is for; its name is the target's.
    required_features
        CPU flags that the code requires.
    programs
        The programs for the shapes of the inputs.
    own_constant_bytes
        The part of the constants that only this target reads.
    """

    machine: Machine | CudaMachine
    required_features: tuple[str, ...]
    programs: tuple[ProgramRecord, ...]
    own_constant_bytes: int = 0

    @property
    def name(self) -> str:
        """The target's name."""
        return self.machine.name

    def to_json(self) -> dict[str, Any]:
        """The part of the file."""
        first, *others = self.programs
        return {
            "target": self.machine.to_json(),
            "required_features": list(self.required_features),
            "own_constant_bytes": self.own_constant_bytes,
            **first.to_json(),
            **({"others": [each.to_json() for each in others]} if others else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TargetRecord:
        """Inverse of :meth:`to_json`; ignores other fields."""
        programs = [data, *data.get("others", ())]
        return cls(
            machine=read_device(data["target"]),
            required_features=tuple(map(str, data["required_features"])),
            programs=tuple(map(ProgramRecord.from_json, programs)),
            own_constant_bytes=data.get("own_constant_bytes", 0),
        )
