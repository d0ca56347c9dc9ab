"""The manifest of a model that was just compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvmconv.artifact.manifest import Manifest
from tvmconv.artifact.program_record import MemoryReport, ProgramRecord
from tvmconv.core.decision import Decision, Unscheduled
from tvmconv.core.version import package_version
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.program.program import Program


@dataclass(frozen=True)
class Planned:
    """The decisions for a program: fields as in ``LoweredGraph``."""

    decisions: tuple[Decision, ...] = ()
    unscheduled: tuple[Unscheduled, ...] = ()
    reorders: int = 0
    padding_bytes: int = 0


def record_program(
    program: Program,
    machine: Machine | CudaMachine,
    planned: Sequence[Planned] = (),
    *,
    model_name: str = "",
    model_sha256: str = "",
    policy: Mapping[str, Any] | None = None,
) -> Manifest:
    """Describe a compiled program; a call uses as many threads as the machine has cores.

    ``planned`` has an entry for the program and for each of its ``others``, and ``policy`` is plain
    data.
    """
    from tvmconv.tvm_api.target import llvm_version

    own = _own_bytes(program)
    plans = planned or [Planned()] * len(own)
    records = [
        _record(each, machine, plan, program.constant_bytes, own_bytes)
        for each, plan, own_bytes in zip(program.programs, plans, own, strict=True)
    ]
    return Manifest(
        model_name=model_name,
        model_sha256=model_sha256,
        machine=machine,
        required_features=required_features(machine),
        threads=machine.cores,
        **vars(records[0]),
        policy=policy or {},
        versions={"tvm": package_version("apache-tvm"), "llvm": llvm_version()},
        others=tuple(records[1:]),
    )


def _record(
    program: Program,
    machine: Machine | CudaMachine,
    planned: Planned,
    constant_bytes: int,
    own_bytes: int,
) -> ProgramRecord:
    """The record of one of a model's programs, which share ``constant_bytes``."""
    memory = MemoryReport(
        arena_bytes=program.arena_bytes,
        output_bytes=sum(tensor.bytes for tensor in program.outputs),
        constant_bytes=constant_bytes,
        workspace_bytes=program.workspace_bytes * machine.cores,
        padding_bytes=planned.padding_bytes,
        own_constant_bytes=own_bytes,
    )
    return ProgramRecord(
        inputs=program.inputs,
        outputs=program.outputs,
        decisions=planned.decisions,
        calls=tuple(call.record for call in program.all_calls()),
        unscheduled=planned.unscheduled,
        memory=memory,
        reorders=planned.reorders,
    )


def _own_bytes(model: Program) -> list[int]:
    """Bytes of the constants that each program reads alone; 0 for the only program."""
    if not model.others:
        return [0]
    return _read_once([program.used_constants() for program in model.programs])


def several_targets(manifests: Sequence[Manifest], programs: Sequence[Program]) -> Manifest:
    """The manifest of a model with a program for each target, in the order of preference."""
    if len(manifests) == 1:
        return manifests[0]
    used: list[dict[int, int]] = []
    for program in programs:
        used.append({k: n for each in program.programs for k, n in each.used_constants().items()})
    own = _read_once(used)
    records = (m.record(size) for m, size in zip(manifests, own, strict=True))
    return replace(manifests[0], targets=tuple(records))


def _read_once(used: Sequence[Mapping[int, int]]) -> list[int]:
    """Bytes of the constants that each reader alone uses, from sizes by offset."""
    readers = Counter(offset for each in used for offset in each)
    return [sum(n for offset, n in each.items() if readers[offset] == 1) for each in used]
