"""The manifest of a model that was just compiled."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any

from tvmconv.artifact.manifest import Manifest, MemoryReport
from tvmconv.core.decision import Decision, Unscheduled
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.program.program import Program


def record_program(
    program: Program,
    machine: Machine | CudaMachine,
    *,
    decisions: tuple[Decision, ...] = (),
    unscheduled: tuple[Unscheduled, ...] = (),
    reorders: int = 0,
    padding_bytes: int = 0,
    model_name: str = "",
    model_sha256: str = "",
    policy: Mapping[str, Any] | None = None,
) -> Manifest:
    """Describe a compiled program; a call uses as many threads as the machine has cores.

    ``decisions``, ``unscheduled``, ``reorders`` and ``padding_bytes`` are as in ``LoweredGraph``,
    and ``policy`` is plain data.
    """
    from tvmconv.tvm_api.target import llvm_version

    memory = MemoryReport(
        arena_bytes=program.arena_bytes,
        output_bytes=sum(tensor.bytes for tensor in program.outputs),
        constant_bytes=program.constant_bytes,
        workspace_bytes=program.workspace_bytes * machine.cores,
        padding_bytes=padding_bytes,
    )
    return Manifest(
        model_name=model_name,
        model_sha256=model_sha256,
        machine=machine,
        required_features=required_features(machine),
        threads=machine.cores,
        inputs=program.inputs,
        outputs=program.outputs,
        decisions=decisions,
        calls=tuple(call.record for call in program.all_calls()),
        unscheduled=unscheduled,
        memory=memory,
        reorders=reorders,
        policy=policy or {},
        versions={"tvm": metadata.version("apache-tvm"), "llvm": llvm_version()},
    )
