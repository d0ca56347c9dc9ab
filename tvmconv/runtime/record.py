"""The manifest of a model that was just compiled; the one part that asks TVM's compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.runtime import engine
from tvmconv.runtime.manifest import Manifest
from tvmconv.runtime.memory import MemoryReport, constant_bytes, peak_storage


def record_executable(
    executable: Any,
    *,
    machine: Machine,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    lowered: Any = None,
    model_name: str = "",
    model_sha256: str = "",
    threads: int | None = None,
    policy: Mapping[str, Any] | None = None,
) -> Manifest:
    """Describe an executable; parameters as of ``CompiledModel.from_executable``."""
    decisions = tuple(lowered.decisions) if lowered is not None else ()
    calls = tuple(map(_as_call, lowered.calls)) if lowered is not None else ()
    memory = MemoryReport(
        arena_bytes=peak_storage(str(executable.mod["stats"]()), str(executable.mod["as_text"]())),
        output_bytes=sum(tensor.bytes for tensor in outputs),
        constant_bytes=constant_bytes(lowered.mod) if lowered is not None else 0,
        workspace_bytes=max(
            [
                0,
                *(d.chosen.workspace_bytes for d in decisions),
                *getattr(executable, "workspace_bytes", {}).values(),
            ]
        ),
        padding_bytes=lowered.padding_overhead_bytes if lowered is not None else 0,
    )
    return Manifest(
        model_name=model_name,
        model_sha256=model_sha256,
        machine=machine,
        required_features=required_features(machine),
        threads=threads or machine.cores,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        decisions=decisions,
        calls=calls,
        unscheduled=lowered.unscheduled if lowered is not None else (),
        memory=memory,
        reorders=lowered.reorders if lowered is not None else 0,
        policy=policy or {},
        versions={**engine.versions(), "llvm": _llvm_version()},
    )


def _as_call(call: Any) -> KernelCall:
    return KernelCall(
        layer=call.layer,
        kernel=call.kernel,
        operator=call.operator,
        workload=str(call.workload or ""),
        flops=int(call.flops),
        bytes=int(call.bytes),
    )


def _llvm_version() -> str:
    from tvm import get_global_func

    return str(get_global_func("target.llvm_version_major")())
