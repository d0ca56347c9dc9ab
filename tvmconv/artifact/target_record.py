"""The record of one target of a model, as a part of its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from tvmconv.artifact.program_record import ProgramRecord
from tvmconv.core.plain_data import check_types
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_device


@dataclass(frozen=True)
class TargetRecord:
    """The part of a manifest that belongs to one of several targets.

    Loading a model reads the programs of one target alone.

    Parameters
    ----------
    machine
        The CPU that the code is for; its name is the target's.
    required_features
        CPU flags that the code requires.
    data
        The programs for the shapes of the inputs, as plain data.
    own_constant_bytes
        The part of the constants that only this target reads.
    """

    machine: Machine | CudaMachine
    required_features: tuple[str, ...]
    data: Mapping[str, Any]
    own_constant_bytes: int = 0

    @classmethod
    def of(
        cls,
        machine: Machine | CudaMachine,
        features: tuple[str, ...],
        programs: Sequence[ProgramRecord],
        own_constant_bytes: int = 0,
    ) -> TargetRecord:
        """The record of these programs."""
        first, *others = (program.to_json() for program in programs)
        data = {**first, **({"others": others} if others else {})}
        return cls(machine, features, data, own_constant_bytes)

    @cached_property
    def programs(self) -> tuple[ProgramRecord, ...]:
        """The programs for the shapes of the inputs; malformed data raise errors of many types."""
        found = self.unchecked()
        check_types(found, tuple[ProgramRecord, ...], "programs")
        return found

    def unchecked(self) -> tuple[ProgramRecord, ...]:
        """The programs, with fields that may be of other types."""
        return tuple(map(ProgramRecord.from_json, (self.data, *self.data.get("others", ()))))

    @property
    def name(self) -> str:
        """The target's name."""
        return self.machine.name

    def to_json(self) -> dict[str, Any]:
        """The part of the file."""
        return {
            "target": self.machine.to_json(),
            "required_features": list(self.required_features),
            "own_constant_bytes": self.own_constant_bytes,
            **self.data,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TargetRecord:
        """Inverse of :meth:`to_json`; ignores other fields."""
        names = (*(each.name for each in fields(ProgramRecord)), "others")
        return cls(
            machine=read_device(data["target"]),
            required_features=tuple(map(str, data["required_features"])),
            data={name: value for name, value in data.items() if name in names},
            own_constant_bytes=data.get("own_constant_bytes", 0),
        )
